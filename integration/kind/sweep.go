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

// claim takes the lock that keeps runs of one user apart: their clusters and images have the same names.
func claim() (*flock.Flock, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a folder for the lock of this run: %w", err)
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

// made says what of Docker's is this package's: how it is listed, by which names, and how it is removed.
type made struct {
	list   []string
	ours   func(name string) bool
	remove []string
}

// In this order, since containers hold the rest.
var everything = []made{
	{[]string{"container", "ls", "--all", "--format", "{{.Names}}"}, hasPrefix, []string{"container", "rm", "--force", "--volumes"}},
	{[]string{"volume", "ls", "--format", "{{.Name}}"}, hasPrefix, []string{"volume", "rm", "--force"}},
	{[]string{"network", "ls", "--format", "{{.Name}}"}, hasPrefix, []string{"network", "rm"}},
	{[]string{"image", "ls", "--format", "{{.Repository}}:{{.Tag}}"}, isImage, []string{"image", "rm"}},
}

func hasPrefix(name string) bool { return strings.HasPrefix(name, prefix) }
func isImage(name string) bool   { return slices.Contains(madeImages(), name) }

// sweep removes every container, volume, network and image of this package, also those of a run that was killed.
func sweep(ctx context.Context) error {
	var problems []error
	for _, m := range everything {
		problems = append(problems, m.sweep(ctx))
	}
	return errors.Join(problems...)
}

func (m made) sweep(ctx context.Context) error {
	list, err := undisturbed(ctx, m.list...)
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(strings.Fields(list), func(name string) bool { return !m.ours(name) })
	if len(found) == 0 {
		return nil
	}
	_, err = undisturbed(ctx, append(slices.Clone(m.remove), found...)...)
	return err
}

// undisturbed runs a command of Docker's that Ctrl-C does not reach, which goes to all of a terminal's foreground
// processes: whoever types it again wants this to end soon, not by halves.
func undisturbed(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return run(ctx, cmd)
}
