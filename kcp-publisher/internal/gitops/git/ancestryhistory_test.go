package git

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// The test runs random histories of a branch. An adversary can move the branch to any signed commit. A model with the
// parents of each commit decides which commits can be applied.
func TestRandomOldCommitsAreNotAppliedAgain(t *testing.T) {
	const seed, histories = 44, 12
	accepted, refused := 0, 0
	for number := range uint64(histories) {
		random := rand.New(rand.NewPCG(seed, number))
		w := newWork(t)
		parents := map[string][]string{}
		var all []string
		var last AppliedCommit
		for step := range 12 {
			if step == 0 || random.IntN(2) == 0 {
				var from []plumbing.Hash
				for i := 0; i < len(all) && i <= random.IntN(2); i++ {
					from = append(from, plumbing.NewHash(all[random.IntN(len(all))]))
				}
				hash := w.commit(map[string]string{"a.yaml": fmt.Sprint(step)},
					func(o *gogit.CommitOptions) { o.Parents = from })
				for _, parent := range from {
					parents[hash] = append(parents[hash], parent.String())
				}
				all = append(all, hash)
			} else {
				to := plumbing.NewHash(all[random.IntN(len(all))])
				w.must(w.repo.Storer.SetReference(plumbing.NewHashReference("refs/heads/main", to)))
			}
			o := Options{URL: w.dir, Branch: "main"}
			commit := fetched(t, o)
			err := open(t, o).CheckSuccessor(t.Context(), commit, last)
			var rewind *RewindError
			if err != nil && !errors.As(err, &rewind) {
				t.Fatalf("history %d, step %d: %v", number, step, err)
			}
			want := last.Commit == "" || slices.Contains(ancestorsOf(commit.Hash, parents), last.Commit)
			if (err == nil) != want {
				t.Fatalf("history %d, step %d: commit %s after %s: got %v, want accepted %t", number, step, commit.Hash,
					last.Commit, err, want)
			}
			if err == nil {
				last = AppliedCommit{w.dir, "branch main", commit.Hash}
				accepted++
			} else {
				refused++
			}
		}
	}
	if accepted < histories || refused < histories {
		t.Errorf("got %d accepted and %d refused commits, so the test does not cover both", accepted, refused)
	}
}

// ancestorsOf returns a commit and all of its ancestors.
func ancestorsOf(commit string, parents map[string][]string) []string {
	all := []string{commit}
	for _, parent := range parents[commit] {
		all = append(all, ancestorsOf(parent, parents)...)
	}
	return all
}
