package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"sigs.k8s.io/yaml"
)

// repository is the control plane's Git repository, served over HTTP.
type repository struct {
	mu     sync.Mutex // serializes commits
	dir    string
	server *httptest.Server
}

func newRepository(ctx context.Context, dir string) (*repository, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	bare := filepath.Join(dir, "served", "fleet.git")
	r := &repository{dir: filepath.Join(dir, "checkout")}
	for _, folder := range []string{filepath.Dir(bare), r.dir} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", bare}, {"clone", "--quiet", bare, r.dir},
	} {
		if err := r.git(ctx, args...); err != nil {
			return nil, err
		}
	}
	r.server = httptest.NewServer(&cgi.Handler{Path: program, Args: []string{"http-backend"}, Dir: filepath.Dir(bare),
		Env: []string{
			"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null",
		}})
	return r, nil
}

func (r *repository) flags() []string {
	return []string{"--git-url", r.server.URL + "/fleet.git", "--set", "git-poll-interval=500ms", "--git-path", "fleet"}
}

func (r *repository) git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=Ada",
		"GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %v: %w\n%s", args, err, output)
	}
	return nil
}

// push commits one file for each object. The key of an object is the name of its file. A nil object removes the file.
func (r *repository) push(ctx context.Context, subject string, objects map[string]any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, object := range objects {
		path := filepath.Join(r.dir, "fleet", name+".yaml")
		if object == nil {
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // an earlier attempt removed it
				return err
			}
			continue
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"add", "-A"}, {"commit", "--quiet", "--allow-empty", "-m", subject},
		{"push", "--quiet", "origin", "HEAD:main"}} {
		if err := r.git(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
