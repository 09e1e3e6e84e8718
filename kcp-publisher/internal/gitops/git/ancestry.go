package git

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// IsDescendant reports whether a commit is a descendant of ancestor. It fetches the commits since ancestor. If the
// server does not send all of these commits, it returns false.
func (r *Repository) IsDescendant(ctx context.Context, commit *Commit, ancestor string) (bool, error) {
	defer r.closeConnections()
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if !plumbing.IsHash(ancestor) {
		return false, fmt.Errorf("%q is not the hash of a commit", ancestor)
	}
	if ancestor == commit.Hash {
		return true, nil
	}
	from, objects := plumbing.NewHash(ancestor), commit.objects
	if !r.isLocal() {
		var err error
		if objects, err = r.fetchSince(ctx, plumbing.NewHash(commit.Head), from); err != nil {
			return false, r.fetchError("fetch the history of", err)
		}
	}
	return isReachable(objects, plumbing.NewHash(commit.Hash), from)
}

func (r *Repository) fetchSince(ctx context.Context, head, from plumbing.Hash) (storer.EncodedObjectStorer, error) {
	advertised, session, refs, err := r.readAdvertised(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }() // closing a read-only session cannot lose data
	if advertised != head {
		return nil, errors.New("the branch changed while it was read")
	}
	request := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	request.Wants, request.Haves = []plumbing.Hash{head}, []plumbing.Hash{from}
	// A thin pack refers to objects that are not stored locally.
	request.Capabilities.Delete(capability.ThinPack)
	if refs.Capabilities.Supports(capability.Filter) {
		request.Filter = packp.FilterTreeDepth(0)
		if err := request.Capabilities.Set(capability.Filter); err != nil {
			return nil, err
		}
	}
	response, err := session.UploadPack(ctx, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Close() }()
	return unpackObjects(unframePack(request.Capabilities, response))
}

func isReachable(objects storer.EncodedObjectStorer, head, ancestor plumbing.Hash) (bool, error) {
	seen, next := map[plumbing.Hash]bool{head: true}, []plumbing.Hash{head}
	for len(next) > 0 {
		hash := next[0]
		next = next[1:]
		if hash == ancestor {
			return true, nil
		}
		commit, err := object.GetCommit(objects, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		for _, parent := range commit.ParentHashes {
			if !seen[parent] {
				seen[parent] = true
				next = append(next, parent)
			}
		}
		if len(seen) > maxObjects {
			return false, fmt.Errorf("the branch has more than %d commits since %s", maxObjects, ancestor)
		}
	}
	return false, nil
}
