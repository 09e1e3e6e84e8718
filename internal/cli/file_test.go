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

func TestWriteFileReplacesAtomically(t *testing.T) {
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
			t.Errorf("%s: got content %q, error %v, want %q", name, data, err, name)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the symbolic link was replaced by a file: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("got folder entries %v, error %v, want no temporary files", entries, err)
	}
	if err := WriteFile(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if err := WriteFile(dir, []byte("x")); err == nil {
		t.Error("WriteFile accepted a folder")
	}
}

// A new file gets its mode from the umask. An existing file keeps its mode. A read-only file must not be replaced.
func TestWriteFileKeepsMode(t *testing.T) {
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
		t.Errorf("new file: got mode %o, error %v, want mode 640", mode(), err)
	}
	for _, own := range []fs.FileMode{0o600, 0o666} {
		if err := errors.Join(os.Chmod(path, own), WriteFile(path, []byte("again"))); err != nil || mode() != own {
			t.Errorf("existing file: got mode %o, error %v, want mode %o", mode(), err, own)
		}
	}
	if err := errors.Join(os.Chmod(path, 0o444), WriteFile(path, []byte("changed"))); !errors.Is(err,
		fs.ErrPermission) {
		t.Errorf("read-only file: got error %v, want %v", err, fs.ErrPermission)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "again" {
		t.Errorf("read-only file: got content %q, error %v, want the old content", data, err)
	}
	circle := filepath.Join(dir, "circle")
	if err := errors.Join(os.Symlink(circle, circle), WriteFile(circle, []byte("x"))); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("circular symbolic link: got error %v, want %v", err, syscall.ELOOP)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("got folder entries %v, error %v, want no temporary files", entries, err)
	}
}

func TestFullDiskErrorHasHint(t *testing.T) {
	full := fmt.Errorf("write: %w", &fs.PathError{
		Op: "write", Path: "/data/keys/.staged.tmp/root.json", Err: syscall.ENOSPC,
	})
	for _, want := range []string{"the disk of /data/keys/.staged.tmp", "run the same command again"} {
		if got := hint(full); !strings.Contains(got, want) {
			t.Errorf("got hint %q, want it to contain %q", got, want)
		}
	}
	moved := fmt.Errorf("write: %w", &os.LinkError{Op: "rename", Old: "/a", New: "/b", Err: syscall.ENOSPC})
	if got := hint(moved); !strings.Contains(got, "free space on the disk") {
		t.Errorf("got hint %q, want the advice to free space", got)
	}
	// inotify also returns ENOSPC if a user watches too many files, although the disk is not full.
	watching := fmt.Errorf("watch the certificate: %w", syscall.ENOSPC)
	if got := hint(watching); strings.Contains(got, "disk") || !strings.Contains(got, "fs.inotify.max_user_watches") {
		t.Errorf("got hint %q, want the advice to raise the limit", got)
	}
	if got := hint(&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}); got != "" {
		t.Errorf("got hint %q for an unrelated error, want none", got)
	}
}
