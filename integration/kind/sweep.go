package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

// claim locks a file in the user's cache folder. It fails if another run is active, because all runs use the same
// Docker object names.
func claim() (*flock.Flock, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the folder of the lock file: %w", err)
	}
	path := filepath.Join(cache, "kyma-pull", "kind.lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	lock := flock.New(path)
	taken, err := lock.TryLock()
	if err == nil && !taken {
		err = fmt.Errorf("%s is held by another run of the scenarios on kind: wait until it has ended", path)
	}
	return lock, err
}

// objectType describes how to list, name and remove one type of Docker object.
type objectType struct {
	list   []string
	ours   func(name string) bool
	remove []string
}

// objectTypes lists the types of Docker objects. Containers come first, because Docker does not remove an object that a
// container uses.
var objectTypes = []objectType{
	{
		[]string{"container", "ls", "--all", "--format", "{{.Names}}"}, hasPrefix, []string{
			"container", "rm", "--force", "--volumes",
		},
	},
	{[]string{"volume", "ls", "--format", "{{.Name}}"}, hasPrefix, []string{"volume", "rm", "--force"}},
	{[]string{"network", "ls", "--format", "{{.Name}}"}, hasPrefix, []string{"network", "rm"}},
	{[]string{"image", "ls", "--format", "{{.Repository}}:{{.Tag}}"}, isImage, []string{"image", "rm"}},
}

func hasPrefix(name string) bool { return strings.HasPrefix(name, prefix) }
func isImage(name string) bool   { return slices.Contains(builtImages(), name) }

// sweep removes all Docker objects of this package.
func sweep(ctx context.Context) error {
	var problems []error
	for _, m := range objectTypes {
		problems = append(problems, m.sweep(ctx))
	}
	return errors.Join(problems...)
}

func (m objectType) sweep(ctx context.Context) error {
	list, err := runUninterrupted(ctx, m.list...)
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(strings.Fields(list), func(name string) bool { return !m.ours(name) })
	if len(found) == 0 {
		return nil
	}
	_, err = runUninterrupted(ctx, append(slices.Clone(m.remove), found...)...)
	return err
}

// runUninterrupted runs a Docker command in its own process group, so Ctrl-C in a terminal does not interrupt it.
func runUninterrupted(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return run(ctx, cmd)
}
