package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFileIsWrittenAtomically(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		if err := WriteFile(name, []byte(name)); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != name {
			t.Errorf("%s: got %q, %v", name, data, err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link became a file: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("left %v, %v", entries, err)
	}
	if err := WriteFile(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if err := WriteFile(dir, []byte("x")); err == nil {
		t.Error("a folder is no file")
	}
}

// A new file has the mode of the umask, and an existing one keeps its own. A read-only file stays unchanged.
func TestWrittenFileKeepsItsMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	mode := func() fs.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if err := WriteFile(path, []byte("new")); err != nil || mode() != 0o640 {
		t.Errorf("a new one has mode %o, %v", mode(), err)
	}
	for _, own := range []fs.FileMode{0o600, 0o666} {
		if err := errors.Join(os.Chmod(path, own), WriteFile(path, []byte("again"))); err != nil || mode() != own {
			t.Errorf("got mode %o, want %o: %v", mode(), own, err)
		}
	}
	if err := errors.Join(os.Chmod(path, 0o444), WriteFile(path, []byte("changed"))); !errors.Is(err,
		fs.ErrPermission) {
		t.Errorf("a read-only one: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "again" {
		t.Errorf("a read-only one has %q, %v", data, err)
	}
	circle := filepath.Join(dir, "circle")
	if err := errors.Join(os.Symlink(circle, circle), WriteFile(circle, []byte("x"))); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link that the system does not follow: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("left %v, %v", entries, err)
	}
}

func TestFullDiskIsReportedWithAdvice(t *testing.T) {
	full := fmt.Errorf("write: %w", &fs.PathError{
		Op: "write", Path: "/data/keys/.staged.tmp/root.json", Err: syscall.ENOSPC,
	})
	for _, want := range []string{"the disk of /data/keys/.staged.tmp", "run the same command again"} {
		if got := hint(full); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	moved := fmt.Errorf("write: %w", &os.LinkError{Op: "rename", Old: "/a", New: "/b", Err: syscall.ENOSPC})
	if got := hint(moved); !strings.Contains(got, "free space on the disk") {
		t.Errorf("%q does not name the disk", got)
	}
	// The error of inotify if a user watches too many files: the disk is not full.
	watching := fmt.Errorf("watch the certificate: %w", syscall.ENOSPC)
	if got := hint(watching); strings.Contains(got, "disk") || !strings.Contains(got, "fs.inotify.max_user_watches") {
		t.Errorf("got %q", got)
	}
	if got := hint(&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}); got != "" {
		t.Errorf("got %q", got)
	}
}
