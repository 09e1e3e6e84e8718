package git

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// AppliedCommit identifies the commit that was applied or published last.
type AppliedCommit struct {
	Repository string `json:"repository"`
	// Revision is the name of the branch or tag, as returned by Repository.Revision.
	Revision string `json:"revision"`
	Commit   string `json:"commit"`
}

// Applied returns the AppliedCommit for one of the repository's commits.
func (r *Repository) Applied(commit *Commit) AppliedCommit {
	return AppliedCommit{Repository: r.URL, Revision: r.Revision(), Commit: commit.Hash}
}

const branchPrefix, tagPrefix = "branch ", "tag "

// hasOriginOf reports whether both commits are from the same repository and branch, or from tags in the same
// repository.
func (a AppliedCommit) hasOriginOf(other AppliedCommit) bool {
	if a.Repository != other.Repository {
		return false
	}
	return a.Revision == other.Revision || strings.HasPrefix(a.Revision, tagPrefix) &&
		strings.HasPrefix(other.Revision, tagPrefix)
}

// RewindError means that a commit does not follow the commit that was applied last.
type RewindError struct {
	Next, Last AppliedCommit
}

// Error returns a message with both commits.
func (e *RewindError) Error() string {
	const fix = "or allow this once with --allow-rewind"
	next, last := e.Next, e.Last
	if !next.hasOriginOf(last) {
		return fmt.Sprintf("commit %s is from %s of %s, but the last applied commit %s is from %s of %s: no part of it is "+
			"applied; use the same repository and branch, %s", next.Commit, next.Revision, next.Repository, last.Commit,
			last.Revision, last.Repository, fix)
	}
	return fmt.Sprintf("commit %s of %s does not descend from the last applied commit %s: no part of it is applied; "+
		"add a commit on top of the last one, %s", next.Commit, next.Repository, last.Commit, fix)
}

// CheckSuccessor returns a RewindError if a commit is from a different repository or branch than the last applied
// commit, or if it does not descend from that commit. A tag can follow another tag. Without this check, a Git server
// could return an old signed commit, or a commit that was signed for another purpose. If no commit was applied before,
// CheckSuccessor accepts any commit.
func (r *Repository) CheckSuccessor(ctx context.Context, commit *Commit, last AppliedCommit) error {
	next := r.Applied(commit)
	if last.Commit == "" || next == last {
		return nil
	}
	if !next.hasOriginOf(last) {
		return &RewindError{next, last}
	}
	descends, err := r.IsDescendant(ctx, commit, last.Commit)
	if err != nil {
		return fmt.Errorf("check whether commit %s of %s descends from commit %s: %w", commit.Hash, r.URL, last.Commit, err)
	}
	if !descends {
		return &RewindError{next, last}
	}
	return nil
}

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
	// Do not request a thin pack, because it refers to objects that are not stored locally.
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
