package git

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Parent fetches the only parent of the branch's newest commit. It returns an error if commit is not the branch's
// newest commit, or if it does not have exactly one parent.
func (r *Repository) Parent(ctx context.Context, commit *Commit) (*Commit, error) {
	defer r.closeConnections()
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if n := commit.commit.NumParents(); n != 1 {
		return nil, fmt.Errorf("commit %s has %d parents, must have exactly one", commit.Hash, n)
	}
	head, _, objects, err := r.fetch(ctx, 2)
	if err == nil && head != plumbing.NewHash(commit.Head) {
		err = errors.New("the branch changed while it was read")
	}
	if err != nil {
		return nil, r.fetchError("fetch", err)
	}
	parent, err := r.read(commit.commit.ParentHashes[0], objects)
	if err != nil {
		return nil, r.newFetchError("read the parent of commit "+commit.Hash+" of", err)
	}
	return parent, nil
}

// IsChange reports whether a commit differs from its parent by exactly this change.
func (r *Repository) IsChange(commit, parent *Commit, change Change) (bool, error) {
	composed, err := r.compose(parent, change, memory.NewStorage())
	if err != nil {
		return false, r.newFetchError("change", err)
	}
	return composed.TreeHash == commit.commit.TreeHash, nil
}
