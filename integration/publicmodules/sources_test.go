package publicmodules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sourcesEnv is the environment variable with a folder of Git repositories, each at OWNER/NAME.git. If it is empty, the
// sources come from GitHub.
const sourcesEnv = "KYMA_PULL_SOURCES"

// fetch returns a folder with the module's files in a release. It stores the files in the user's cache folder.
func (m module) fetch(ctx context.Context, r release) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	base := filepath.Join(cache, "kyma-pull", "sources")
	dir := filepath.Join(base, m.name+"-"+r.commit)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(base, "fetch-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := m.export(ctx, r, temporary); err != nil {
		return "", fmt.Errorf("%s %s: fetch tag %s of %s (or set $%s to a folder with %s.git): %w", m.name, r.version, r.tag,
			m.repository, sourcesEnv, m.repository, err)
	}
	// Another process may have fetched the same sources first.
	if err := os.Rename(filepath.Join(temporary, "files"), dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

// export writes the module's files in a release to the folder named files below dir. The commit hash proves that the
// files are unchanged.
func (m module) export(ctx context.Context, r release, dir string) error {
	repository := filepath.Join(os.Getenv(sourcesEnv), filepath.FromSlash(m.repository)+".git")
	if os.Getenv(sourcesEnv) == "" {
		repository = filepath.Join(dir, "repository")
		if err := run(ctx, "git", "clone", "--quiet", "--bare", "--depth=1", "--filter=blob:none", "--branch", r.tag,
			"https://github.com/"+m.repository+".git", repository); err != nil {
			return err
		}
	}
	commit, err := exec.CommandContext(ctx, "git", "-C", repository, "rev-parse", "--verify", r.tag+"^{commit}").Output()
	if err != nil {
		return fmt.Errorf("find the tag in %s: %w", repository, err)
	}
	if found := strings.TrimSpace(string(commit)); found != r.commit {
		return fmt.Errorf("tag %s is commit %s, want %s", r.tag, found, r.commit)
	}
	files, archive := filepath.Join(dir, "files"), filepath.Join(dir, "files.tar")
	if err := os.Mkdir(files, 0o755); err != nil {
		return err
	}
	args := append([]string{"-C", repository, "archive", "--format=tar", "--output=" + archive, r.commit}, m.paths...)
	if err := run(ctx, "git", args...); err != nil {
		return err
	}
	return run(ctx, "tar", "-xf", archive, "-C", files)
}

func run(ctx context.Context, program string, args ...string) error {
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, output)
	}
	return nil
}

// prepare copies a release's sources to dir, applies the module's moves, and adds its files.
func (m module) prepare(ctx context.Context, r release, dir string) error {
	sources, err := m.fetch(ctx, r)
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(sources)); err != nil {
		return err
	}
	for from, to := range m.moves {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			return err
		}
	}
	if len(m.moves) > 0 { // the emptied folders would be part of the content
		if err := os.RemoveAll(filepath.Join(dir, "manifests")); err != nil {
			return err
		}
	}
	return m.addFiles(r, dir)
}

// addFiles adds the files below testdata/NAME/files. Not all modules have such files, but all have a folder.
func (m module) addFiles(r release, dir string) error {
	base := filepath.Join("testdata", m.name)
	if _, err := os.Stat(base); err != nil {
		return err
	}
	return filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		to, isFile := strings.CutPrefix(filepath.ToSlash(path), filepath.ToSlash(base)+"/files/")
		if err != nil || entry.IsDir() || !isFile {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, to), []byte(r.fill(string(data))), 0o600)
	})
}

// fill replaces VERSION in text.
func (r release) fill(text string) string { return strings.ReplaceAll(text, "VERSION", r.version) }
