package statefile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
)

func open(t *testing.T, path, location string) *File {
	t.Helper()
	f, err := Open(t.Context(), path, location)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestStateFileKeepsBundlesByLocation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "published.json")
	f := open(t, path, "registry.example/fleet")
	if !f.IsNew || f.LastBundle("berlin") != nil {
		t.Errorf("missing file: got new %t, %+v", f.IsNew, f.LastBundle("berlin"))
	}
	f.SetBundle("berlin", v1beta2.PublishedBundle{
		Epoch: 1, Sequence: 7, Digest: "sha256:a", Versions: map[string]string{"keda": "1.0.0"},
	})
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path, "registry.example/fleet")
	if last := again.LastBundle("berlin"); again.IsNew || last == nil || last.Sequence != 7 ||
		last.Versions["keda"] != "1.0.0" {
		t.Errorf("saved file: got new %t, %+v", again.IsNew, last)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	other := open(t, path, "elsewhere.example/fleet")
	if last := other.LastBundle("berlin"); last != nil {
		t.Errorf("another location: got %+v, want none", last)
	}
	other.SetBundle("berlin", v1beta2.PublishedBundle{Sequence: 1, Digest: "sha256:b"})
	if err := other.Save(); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if last := open(t, path, "registry.example/fleet").LastBundle("berlin"); last == nil || last.Sequence != 7 {
		t.Errorf("after another location was saved: got %+v", last)
	}
}

func TestStateFileIsLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "published.json")
	first := open(t, path, "a")
	waiting, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if _, err := Open(waiting, path, "a"); err == nil || !strings.Contains(err.Error(), "lock state file") {
		t.Errorf("locked file: got %v, want a timeout", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path, "a").Close(); err != nil {
		t.Error(err)
	}
}

func TestDamagedStateFileIsAnError(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"truncated file":            {`{"version":1,"loc`, "restore it from a backup"},
		"empty file":                {"", "restore it from a backup"},
		"file with only zero bytes": {"\x00\x00\x00\x00", "restore it from a backup"},
		"file without a version":    {"{}", "has version 0, must be 1: use the program that wrote it, restore it"},
		"null":                      {"null", "has version 0, must be 1"},
		"file with a newer version": {`{"version":2}`, "has version 2, must be 1"},
	} {
		path := filepath.Join(t.TempDir(), "published.json")
		if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), path, "a"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestStateFileCanBeASymlinkButNotADirectory(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "volume.json"), filepath.Join(dir, "published.json")
	if err := open(t, path, "a").Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path, []byte(`{"version":1}`), 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	f := open(t, link, "a")
	f.SetBundle("r-1", v1beta2.PublishedBundle{Digest: "sha256:1"})
	if err := errors.Join(f.Save(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if again := open(t, path, "a"); again.LastBundle("r-1") == nil {
		t.Error("the target of the link was not written")
	}
	if _, err := Open(t.Context(), t.TempDir(), "a"); err == nil ||
		!strings.Contains(err.Error(), "is a directory: choose a file") {
		t.Errorf("directory: got %v, want an error", err)
	}
}

// Replacing a file must not bypass its permissions.
func TestStateFileKeepsItsModeAndMustBeWritable(t *testing.T) {
	dir := t.TempDir()
	path, circle := filepath.Join(dir, "published.json"), filepath.Join(dir, "circle.json")
	if err := errors.Join(os.WriteFile(path, []byte(`{"version":1}`), 0o600), os.Chmod(path, 0o640),
		os.Symlink(circle, circle)); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, "a")
	f.SetBundle("r-1", v1beta2.PublishedBundle{Digest: "sha256:1"})
	if err := errors.Join(f.Save(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("got file %v, %v, want mode 0640", info, err)
	}
	if err := os.Chmod(path, 0o440); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, "a"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("read-only file: got %v, want a permission error", err)
	}
	if _, err := Open(t.Context(), circle, "a"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("link to itself: got %v, want ELOOP", err)
	}
}

func TestStateFileKeepsTheLastCommitByLocation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "published.json")
	commit := git.AppliedCommit{Repository: "https://git.example/fleet", Revision: "branch main", Commit: "c1"}
	f := open(t, path, "a")
	if known := f.LastCommit(); known != (git.AppliedCommit{}) {
		t.Errorf("new file: got commit %+v, want none", known)
	}
	f.SetCommit(commit)
	if err := errors.Join(f.Save(), f.Close()); err != nil {
		t.Fatal(err)
	}
	again := open(t, path, "a")
	if got := again.LastCommit(); got != commit {
		t.Errorf("got commit %+v, want %+v", got, commit)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if got := open(t, path, "b").LastCommit(); got != (git.AppliedCommit{}) {
		t.Errorf("another location: got commit %+v, want none", got)
	}
}
