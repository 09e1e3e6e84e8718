package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// ErrNoHistory means that a commit is missing from the Git history of the checkout. The wrapping error explains how to
// get the commit.
var ErrNoHistory = errors.New("the commit is not in this checkout's history")

// inHistory returns an error unless HEAD descends from the commit.
func inHistory(ctx context.Context, root, commit string) error {
	shallow, err := git(ctx, root, "rev-parse", "--is-shallow-repository").Output()
	if err != nil {
		return fmt.Errorf("%w: %s: %s is not a Git repository: clone it instead of unpacking an archive", ErrNoHistory,
			commit, root)
	}
	output, err := git(ctx, root, "merge-base", "--is-ancestor", commit, "HEAD").CombinedOutput()
	switch {
	case err == nil:
		return nil
	case strings.TrimSpace(string(shallow)) == "true":
		return fmt.Errorf("%w: %s: this clone is shallow: get the rest with `git fetch --unshallow`", ErrNoHistory,
			commit)
	}
	return fmt.Errorf("commit %s is not an ancestor of HEAD and can be missing in clones: pin an ancestor: %s", commit,
		output)
}

// building serializes builds, because several tests can need the same build.
var building sync.Mutex

// BuildAt builds the two programs of a commit, given by its full hash. It caches the programs in the user's cache
// folder.
func BuildAt(ctx context.Context, commit string) (Binaries, error) {
	root, err := checkout()
	if err != nil {
		return Binaries{}, err
	}
	if err := inHistory(ctx, root, commit); err != nil {
		return Binaries{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Binaries{}, err
	}
	dir := filepath.Join(cache, "kyma-pull", "programs-"+commit)
	built := Binaries{Publisher: filepath.Join(dir, "kcp-publisher"), Agent: filepath.Join(dir, "skr-agent")}
	building.Lock()
	defer building.Unlock()
	if _, err := os.Stat(dir); err == nil {
		return built, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return Binaries{}, err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), "programs-")
	if err != nil {
		return Binaries{}, err
	}
	defer func() { _ = os.RemoveAll(made) }()
	if err := buildAt(ctx, root, commit, made); err != nil {
		return Binaries{}, fmt.Errorf("build the programs of commit %s: %w", commit, err)
	}
	// Another process may have built and stored the same programs first.
	if err := os.Rename(filepath.Join(made, "bin"), dir); err != nil && !errors.Is(err, os.ErrExist) {
		return Binaries{}, err
	}
	return built, nil
}

func git(ctx context.Context, root string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...)
}

// buildAt builds the programs into the folder bin of dir.
func buildAt(ctx context.Context, root, commit, dir string) error {
	source := filepath.Join(dir, "source")
	if err := unpack(ctx, root, commit, source, "go.mod", "go.sum", "apis", "bundle", "charts", "internal",
		"kcp-publisher", "skr-agent"); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", filepath.Join(dir, "bin")+"/",
		"./kcp-publisher", "./skr-agent")
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	return run(build)
}

// ChartsAt writes a commit's charts to a new folder.
func ChartsAt(ctx context.Context, commit, dir string) error {
	root, err := checkout()
	if err != nil {
		return err
	}
	if err := inHistory(ctx, root, commit); err != nil {
		return err
	}
	source, err := os.MkdirTemp(filepath.Dir(dir), "source-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(source) }()
	if err := unpack(ctx, root, commit, source, "charts"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(source, "charts"), dir)
}

// unpack writes files and folders from a commit to dir.
func unpack(ctx context.Context, root, commit, dir string, paths ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive := dir + ".tar"
	defer func() { _ = os.Remove(archive) }()
	if err := run(git(ctx, root,
		append([]string{"archive", "--format=tar", "--output=" + archive, commit}, paths...)...)); err != nil {
		return err
	}
	return run(exec.CommandContext(ctx, "tar", "-xf", archive, "-C", dir))
}

func run(cmd *exec.Cmd) error {
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, output)
	}
	return nil
}

// Use sets the programs that the fleet starts from now on. An empty path keeps the current program.
func (f *Fleet) Use(programs Binaries) {
	f.binaries = Binaries{
		Publisher: cmp.Or(programs.Publisher, f.binaries.Publisher), Agent: cmp.Or(programs.Agent, f.binaries.Agent),
	}
}
