package promote

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git/gittest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/promote"
)

const releasesYAML = `apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleReleaseMeta
metadata: {name: keda}
spec:
  moduleName: keda
  channels:
  - {channel: regular, version: 1.0.0}
  - {channel: fast, version: 2.0.0}
`

// repository is a Git repository with the ModuleReleaseMeta of a module in fleet/keda.yaml.
type repository struct{ *gittest.Repository }

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{gittest.New(t)}
	if err := os.Mkdir(filepath.Join(r.Dir, "fleet"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"keda.yaml": releasesYAML, "readme.txt": "text\n"} {
		if err := os.WriteFile(filepath.Join(r.Dir, "fleet", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.Commit()
	r.MakeBare()
	return r
}

// push creates a commit with these changes below fleet/ on a branch, and returns its hash.
func (r *repository) push(from, to string, files map[string][]byte) string {
	r.T.Helper()
	repository, err := git.Open(git.Options{URL: r.URL(), Branch: from, Path: "fleet"})
	if err != nil {
		r.T.Fatal(err)
	}
	base, err := repository.Commit(r.T.Context())
	if err != nil {
		r.T.Fatal(err)
	}
	hash, err := repository.Push(r.T.Context(), base,
		git.Change{Files: files, Name: "Eve", Email: "eve@example.com", Message: "change"}, to)
	if err != nil {
		r.T.Fatal(err)
	}
	return hash
}

// TestExistingBranchMustContainOnlyThePromotion creates branches with the name that `promote` would use.
func TestExistingBranchMustContainOnlyThePromotion(t *testing.T) {
	const branch = "train/keda-regular-2.0.0"
	edited := []byte(strings.Replace(releasesYAML, "1.0.0", "2.0.0", 1))
	file := func(content []byte) map[string][]byte { return map[string][]byte{"keda.yaml": content} }
	readme := map[string][]byte{"readme.txt": []byte("other text\n")}
	for name, c := range map[string]struct {
		prepare func(r *repository) string // returns the hash that the error must contain
		want    string                     // "" if the branch contains only the promotion
	}{
		"promotion": {func(r *repository) string { return r.push("", branch, file(edited)) }, ""},
		"promotion of an earlier commit": {func(r *repository) string {
			r.push("", branch, file(edited))
			return r.push("master", "master", readme)
		}, ""},
		"promotion and another file": {func(r *repository) string {
			return r.push("", branch, map[string][]byte{"keda.yaml": edited, "readme.txt": readme["readme.txt"]})
		}, "the commit contains other changes: see `git show %s`"},
		"promotion and another channel": {func(r *repository) string {
			return r.push("", branch, file([]byte(strings.ReplaceAll(string(edited), "2.0.0", "2.0.0 "))))
		}, "the commit contains other changes: see `git show %s`"},
		"commit before the promotion": {func(r *repository) string {
			before := r.push("", branch, readme)
			r.push(branch, branch, file(edited))
			return before
		}, "does not contain commit %s of the branch"},
		"commit after the promotion": {func(r *repository) string {
			promotion := r.push("", branch, file(edited))
			r.push(branch, branch, readme)
			return promotion
		}, "does not contain commit %s of the branch"},
		"followed branch that has the promotion": {func(r *repository) string {
			parent := r.push("master", "master", file(edited))
			r.push("master", branch, readme)
			return parent
		}, "its parent %s already has the promotion"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			hash := c.prepare(r)
			repository, err := git.Open(git.Options{URL: r.URL(), Path: "fleet"})
			if err != nil {
				t.Fatal(err)
			}
			row := Result{
				Promotion: promote.Promotion{Module: "keda", Source: "fast", Channel: "regular", To: "2.0.0"},
				Branch:    branch,
			}
			err = checkProposed(t.Context(), repository, row, promotionRequest{module: "keda", from: "fast", to: "regular"})
			if only := errors.Is(err, errProposed); only != (c.want == "") || errors.Is(err, promote.ErrNothing) {
				t.Fatalf("got error %v, want an existing promotion: %t", err, c.want == "")
			}
			if c.want != "" && !strings.Contains(err.Error(), fmt.Sprintf(c.want, hash)) {
				t.Errorf("got error %v, want %s", err, fmt.Sprintf(c.want, hash))
			}
		})
	}
}
