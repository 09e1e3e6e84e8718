package source

import (
	"context"
	"fmt"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
)

// Commit reads a repository's newest commit and its objects. A commit without objects is not an error.
func Commit(ctx context.Context, repository *git.Repository) (*git.Commit, Objects, error) {
	commit, err := repository.Commit(ctx)
	if err != nil {
		return nil, Objects{}, err
	}
	objects, err := Files(commit.Files, repository.Path)
	if err != nil {
		return nil, Objects{}, fmt.Errorf("commit %s of %s: %w", commit.Hash, repository.URL, err)
	}
	return commit, objects, nil
}
