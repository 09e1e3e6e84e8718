package git

import (
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
			"commit itself":                  {"main", third, true},
			"first parent":                   {"main", second, true},
			"second parent":                  {"main", side, true},
			"older ancestor":                 {"main", first, true},
			"newer commit on another branch": {"side", second, false},
			"descendant":                     {"side", third, false},
			"commit of another repository":   {"main", unrelated, false},
			"parent of the side branch":      {"side", first, true},
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
