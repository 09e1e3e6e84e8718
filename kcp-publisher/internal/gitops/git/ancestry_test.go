package git

import (
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

func TestDescendsFollowsTheParentsOfACommit(t *testing.T) {
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
		"a folder":       {URL: w.dir},
		"git's own HTTP": {URL: served(t, w.dir, "pw"), Credentials: Credentials{username: "ada", password: "pw"}},
	}
	for place, options := range places {
		for name, c := range map[string]struct {
			branch, ancestor string
			want             bool
		}{
			"the commit itself":               {"main", third, true},
			"its first parent":                {"main", second, true},
			"its second parent":               {"main", side, true},
			"an older ancestor":               {"main", first, true},
			"a branch that was set back":      {"side", second, false},
			"a newer commit is no ancestor":   {"side", third, false},
			"a commit of another repository":  {"main", unrelated, false},
			"a parent of the branch set back": {"side", first, true},
		} {
			t.Run(place+"/"+name, func(t *testing.T) {
				o := options
				o.Branch = c.branch
				r := open(t, o)
				commit, err := r.Commit(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got, err := r.Descends(t.Context(), commit, c.ancestor); err != nil || got != c.want {
					t.Errorf("descends %t, %v, want %t", got, err, c.want)
				}
			})
		}
	}
	if _, err := open(t, places["a folder"]).Descends(t.Context(), fetched(t, places["a folder"]), "main"); err == nil {
		t.Error("a name is taken for a hash")
	}
}
