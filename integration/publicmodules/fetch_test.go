package publicmodules

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestModuleSourcesMustMatchTheirCommit(t *testing.T) {
	base := t.TempDir()
	t.Setenv(sourcesEnv, base)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir()) // the folder of caches on macOS
	repository := filepath.Join(base, "example", "keda.git")
	must(t, os.MkdirAll(filepath.Join(repository, "config"), 0o755))
	must(t, os.WriteFile(filepath.Join(repository, "config", "a.yaml"), []byte("a: 1\n"), 0o600))
	git := func(args ...string) string {
		identity := []string{"-C", repository, "-c", "user.name=a", "-c", "user.email=a@example.org"}
		output, err := exec.CommandContext(t.Context(), "git", append(identity, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, output)
		}
		return strings.TrimSpace(string(output))
	}
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "-m", "first")
	git("tag", "v1")
	m := module{name: "keda", repository: "example/keda", paths: []string{"config"}}
	r := release{version: "1.0.0", tag: "v1", commit: strings.Repeat("0", 40)}
	if err := m.prepare(t.Context(), r, t.TempDir()); err == nil || !strings.Contains(err.Error(), "want "+r.commit) {
		t.Errorf("the sources of another commit: got %v", err)
	}

	r.commit = git("rev-parse", "HEAD")
	for range 2 {
		dir := t.TempDir()
		must(t, m.prepare(t.Context(), r, dir))
		added, err := os.ReadFile(filepath.Join(dir, "config", "kustomization.yaml"))
		must(t, err)
		if !strings.Contains(string(added), "newTag: 1.0.0}") {
			t.Errorf("the added kustomization.yaml does not contain the version:\n%s", added)
		}
		if _, err := os.Stat(filepath.Join(dir, "config", "a.yaml")); err != nil {
			t.Error(err)
		}
		must(t, os.RemoveAll(repository)) // the second time, the sources are in the cache
	}
}
