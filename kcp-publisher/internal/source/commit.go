package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/git"
)

// Commit reads the newest commit of a repository. A commit without any object is an error: missing is not empty.
func Commit(ctx context.Context, repository *git.Repository) (*git.Commit, Objects, error) {
	commit, err := repository.Commit(ctx)
	if err != nil {
		return nil, Objects{}, err
	}
	objects, err := Files(commit.Files, repository.Path)
	if err == nil && len(objects.Written) == 0 {
		err = errors.New("there are no objects in it: is the path right?")
	}
	if err != nil {
		return nil, Objects{}, fmt.Errorf("commit %s of %s: %w", commit.Hash, repository.URL, err)
	}
	return commit, objects, nil
}
