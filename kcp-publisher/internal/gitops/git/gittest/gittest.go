// Package gittest creates Git repositories for tests.
package gittest

import (
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Repository is a Git repository in a temporary folder.
type Repository struct {
	T   *testing.T
	Dir string
	Git *gogit.Repository
}

// New creates an empty repository.
func New(t *testing.T) *Repository {
	t.Helper()
	r := &Repository{T: t, Dir: t.TempDir()}
	var err error
	if r.Git, err = gogit.PlainInit(r.Dir, false); err != nil {
		t.Fatal(err)
	}
	return r
}

// URL returns the repository's file URL.
func (r *Repository) URL() string { return "file://" + r.Dir }

// Commit commits all files in the folder and returns the commit's hash.
func (r *Repository) Commit() string {
	r.T.Helper()
	tree, err := r.Git.Worktree()
	if err != nil {
		r.T.Fatal(err)
	}
	if err := tree.AddGlob("."); err != nil {
		r.T.Fatal(err)
	}
	hash, err := tree.Commit("change", &gogit.CommitOptions{
		Author: &object.Signature{Name: "Ada", Email: "ada@example.com", When: time.Unix(1_770_000_000, 0)},
	})
	if err != nil {
		r.T.Fatal(err)
	}
	return hash.String()
}

// MakeBare makes the repository accept pushes to its current branch.
func (r *Repository) MakeBare() {
	r.T.Helper()
	config, err := r.Git.Config()
	if err != nil {
		r.T.Fatal(err)
	}
	config.Core.IsBare = true
	if err := r.Git.SetConfig(config); err != nil {
		r.T.Fatal(err)
	}
}
