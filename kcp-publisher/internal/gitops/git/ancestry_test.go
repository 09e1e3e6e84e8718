package git

import (
	"errors"
	"strings"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

func TestIsDescendantFollowsParentCommits(t *testing.T) {
	w := newWork(t)
	first := w.commit(map[string]string{"a.yaml": "1"})
	second := w.commit(map[string]string{"a.yaml": "2"})
	tree, err := w.repo.Worktree()
	w.must(err)
	w.must(tree.Checkout(&gogit.CheckoutOptions{
		Hash: plumbing.NewHash(first), Branch: "refs/heads/side", Create: true,
	}))
	side := w.commit(map[string]string{"b.yaml": "1"})
	w.must(tree.Checkout(&gogit.CheckoutOptions{Branch: "refs/heads/main"}))
	third := w.commit(map[string]string{"a.yaml": "3"}, func(o *gogit.CommitOptions) {
		o.Parents = []plumbing.Hash{plumbing.NewHash(second), plumbing.NewHash(side)}
	})
	other := newWork(t)
	unrelated := other.commit(map[string]string{"a.yaml": "other"})
	places := map[string]Options{
		"local folder":     {URL: w.dir},
		"git http-backend": {URL: served(t, w.dir, "pw"), Credentials: Credentials{username: "ada", password: "pw"}},
	}
	for place, options := range places {
		for name, c := range map[string]struct {
			branch, ancestor string
			want             bool
		}{
			"commit itself":                      {"main", third, true},
			"first parent":                       {"main", second, true},
			"second parent":                      {"main", side, true},
			"older ancestor":                     {"main", first, true},
			"newer commit on a different branch": {"side", second, false},
			"descendant":                         {"side", third, false},
			"commit from a different repository": {"main", unrelated, false},
			"parent of the side branch":          {"side", first, true},
		} {
			t.Run(place+"/"+name, func(t *testing.T) {
				o := options
				o.Branch = c.branch
				r := open(t, o)
				commit, err := r.Commit(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got, err := r.IsDescendant(t.Context(), commit, c.ancestor); err != nil || got != c.want {
					t.Errorf("got descends %t, error %v, want %t", got, err, c.want)
				}
			})
		}
	}
	local := places["local folder"]
	if _, err := open(t, local).IsDescendant(t.Context(), fetched(t, local), "main"); err == nil {
		t.Error("a branch name is accepted as a hash")
	}
}

func TestCommitMustFollowTheLastAppliedCommit(t *testing.T) {
	w := newWork(t)
	first := w.commit(map[string]string{"a.yaml": "1"})
	second := w.commit(map[string]string{"a.yaml": "2"})
	tree, err := w.repo.Worktree()
	w.must(err)
	w.must(tree.Checkout(&gogit.CheckoutOptions{Hash: plumbing.NewHash(first), Branch: "refs/heads/side", Create: true}))
	side := w.commit(map[string]string{"b.yaml": "1"})
	for name, hash := range map[string]string{"v1": first, "v2": second, "v0": side} {
		_, err := w.repo.CreateTag(name, plumbing.NewHash(hash), nil)
		w.must(err)
	}
	applied := func(revision, commit string) AppliedCommit { return AppliedCommit{w.dir, revision, commit} }
	for name, c := range map[string]struct {
		next       Options
		last       AppliedCommit
		isRefused  bool
		wantInText string
	}{
		"no commit was applied":     {Options{Branch: "main"}, AppliedCommit{}, false, ""},
		"same commit":               {Options{Branch: "main"}, applied("branch main", second), false, ""},
		"successor":                 {Options{Branch: "main"}, applied("branch main", first), false, ""},
		"rewound branch":            {Options{Branch: "side"}, applied("branch side", second), true, "does not descend"},
		"successor on other branch": {Options{Branch: "side"}, applied("branch main", first), true, "branch side of"},
		"same commit at HEAD":       {Options{}, applied("branch side", side), true, "HEAD of"},
		"successor in a different repository": {
			Options{Branch: "main"}, AppliedCommit{"https://elsewhere/x", "branch main", first}, true, "https://elsewhere/x",
		},
		"newer tag":     {Options{Tag: "v2"}, applied("tag v1", first), false, ""},
		"older tag":     {Options{Tag: "v1"}, applied("tag v2", second), true, "does not descend"},
		"unrelated tag": {Options{Tag: "v0"}, applied("tag v2", second), true, "does not descend"},
		"unknown commit": {
			Options{Branch: "main"}, applied("branch main", strings.Repeat("ab", 20)), true, "does not descend",
		},
	} {
		c.next.URL = w.dir
		r := open(t, c.next)
		commit := fetched(t, c.next)
		err := r.CheckSuccessor(t.Context(), commit, c.last)
		var rewind *RewindError
		if errors.As(err, &rewind) != c.isRefused || (err != nil) != c.isRefused {
			t.Errorf("%s: got %v, want refused %t", name, err, c.isRefused)
			continue
		}
		for _, want := range []string{c.wantInText, c.last.Commit, commit.Hash, "--allow-rewind"} {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not contain %q", name, err, want)
			}
		}
	}
}
