package fleet

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingCommitIsReportedWithAdvice(t *testing.T) {
	dir := t.TempDir()
	whole, shallow := filepath.Join(dir, "whole"), filepath.Join(dir, "shallow")
	run := func(in string, args ...string) string {
		t.Helper()
		output, err := git(t.Context(), in,
			append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"},
				args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, output)
		}
		return strings.TrimSpace(string(output))
	}
	run(dir, "init", "-q", "-b", "main", whole)
	run(whole, "commit", "-q", "--allow-empty", "-m", "first")
	first := run(whole, "rev-parse", "HEAD")
	run(whole, "commit", "-q", "--allow-empty", "-m", "second")
	run(whole, "checkout", "-q", "--orphan", "aside")
	run(whole, "commit", "-q", "--allow-empty", "-m", "aside")
	aside := run(whole, "rev-parse", "HEAD")
	run(whole, "checkout", "-q", "main")
	run(dir, "clone", "-q", "--depth", "1", "file://"+whole, shallow)
	for name, c := range map[string]struct {
		root, commit, message string
		noHistory             bool
	}{
		"full clone":                  {whole, first, "", false},
		"shallow clone":               {shallow, first, "git fetch --unshallow", true},
		"folder without a repository": {"/", first, "is not a Git repository", true},
		"commit on another branch":    {whole, aside, "is not an ancestor of HEAD", false},
		"unknown commit":              {whole, strings.Repeat("1", 40), "is not an ancestor of HEAD", false},
	} {
		err := inHistory(t.Context(), c.root, c.commit)
		if (err == nil) != (c.message == "") || err != nil && !strings.Contains(err.Error(), c.message) ||
			errors.Is(err, ErrNoHistory) != c.noHistory {
			t.Errorf("%s: %v", name, err)
		}
	}
}
