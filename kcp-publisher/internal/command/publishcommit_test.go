package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// commitFleet commits the files of fleetFolder and returns the hash of the commit.
func (r *repository) commitFleet(t *testing.T) string {
	t.Helper()
	if err := os.CopyFS(r.Dir, os.DirFS(fleetFolder(t))); err != nil {
		t.Fatal(err)
	}
	return r.Commit()
}

func TestPublishRefusesCommitsNotBasedOnTheLastCommit(t *testing.T) {
	r, layout, keyDir := newRepository(t), filepath.Join(t.TempDir(), "layout"), keyFolder(t)
	publishFrom := func(url string, more ...string) outcome {
		return run(append([]string{"publish", "--from", url, "--to", "oci-layout:" + layout, "--keys", keyDir,
			"--allow-unresolved"}, more...)...)
	}
	first := r.commitFleet(t)
	if o := publishFrom(r.URL()); o.code != cli.ExitDone {
		t.Fatalf("first commit: got %+v", o)
	}
	write(t, filepath.Join(r.Dir, "three.yaml"), kymaYAML("three", "r-3", "keda"))
	second := r.Commit()
	if o := publishFrom(r.URL()); o.code != cli.ExitDone {
		t.Fatalf("next commit: got %+v", o)
	}
	tree, err := r.Git.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Reset(&gogit.ResetOptions{Commit: plumbing.NewHash(first), Mode: gogit.HardReset}); err != nil {
		t.Fatal(err)
	}
	other := newRepository(t)
	foreign := other.commitFleet(t)
	index := read(t, filepath.Join(layout, "index.json"))
	for name, c := range map[string]struct {
		url, commit string
		flags       []string
	}{
		"rewound branch":       {r.URL(), first, nil},
		"dry run of a rewind":  {r.URL(), first, []string{"--dry-run"}},
		"another branch":       {r.URL(), first, []string{"--git-branch", "master"}},
		"unrelated repository": {other.URL(), foreign, nil},
	} {
		o := publishFrom(c.url, c.flags...)
		if o.code != cli.ExitFailed {
			t.Errorf("%s: got %+v, want a refused commit", name, o)
		}
		for _, want := range []string{"commit " + c.commit, second, "no part of it is applied", "--allow-rewind"} {
			if !strings.Contains(o.err, want) {
				t.Errorf("%s: error does not contain %q:\n%s", name, want, o.err)
			}
		}
		if read(t, filepath.Join(layout, "index.json")) != index {
			t.Fatalf("%s: a bundle was pushed", name)
		}
	}
	if o := publishFrom(r.URL(), "--allow-rewind"); o.code != cli.ExitDone {
		t.Errorf("with --allow-rewind: got %+v", o)
	}
	if o := publishFrom(r.URL()); o.code != cli.ExitDone {
		t.Errorf("after an allowed rewind: got %+v", o)
	}
	if o := publishFrom(r.Dir, "--allow-rewind"); o.code != cli.ExitUsage {
		t.Errorf("--allow-rewind for a folder: got %+v, want a usage error", o)
	}
}
