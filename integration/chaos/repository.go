package chaos

import (
	"context"
	"fmt"
	"maps"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// repository is the control plane's Git repository, served over HTTP.
type repository struct {
	mu      sync.Mutex // serializes commits
	dir     string
	server  *httptest.Server
	written map[string]*unstructured.Unstructured // objects that stage.write applied, by name
}

func newRepository(ctx context.Context, dir string) (*repository, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	bare := filepath.Join(dir, "served", "fleet.git")
	r := &repository{
		dir: filepath.Join(dir, "checkout"), written: map[string]*unstructured.Unstructured{},
	}
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

// commit changes the wanted state of the control plane, as an operator does. It pushes the objects to Git. If the
// publishers have shards, it writes them to the control plane instead. The keys are file names. A nil object is
// removed.
func (s *stage) commit(ctx context.Context, subject string, objects map[string]any) error {
	if !s.shape.Shards {
		return s.repo.push(ctx, subject, objects)
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if err := s.write(ctx, name, objects[name]); err != nil {
			return fmt.Errorf("%s: %w", subject, err)
		}
	}
	return nil
}

// write applies the object with this name to the control plane. If object is nil, it deletes the object that it last
// applied with this name.
func (s *stage) write(ctx context.Context, name string, object any) error {
	s.repo.mu.Lock()
	defer s.repo.mu.Unlock()
	if object == nil {
		if last := s.repo.written[name]; last != nil {
			return client.IgnoreNotFound(s.fleet.Control.Delete(ctx, last))
		}
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(fields, "status")
	o := &unstructured.Unstructured{Object: fields}
	s.repo.written[name] = o.DeepCopy()
	return s.fleet.Control.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("operators"),
		client.ForceOwnership)
}

// push commits objects to files, whose names are the keys. A nil object removes the file.
func (r *repository) push(ctx context.Context, subject string, objects map[string]any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, object := range objects {
		path := filepath.Join(r.dir, "fleet", name+".yaml")
		if object == nil {
			if err := os.Remove(path); err != nil {
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
