package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAFileIsWrittenAsAWhole(t *testing.T) {
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

func TestAFullDiskIsNamedWithTheWayOut(t *testing.T) {
	full := fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: "/data/keys/.staged.tmp/root.json", Err: syscall.ENOSPC})
	for _, want := range []string{"the disk of /data/keys/.staged.tmp", "run the same command again"} {
		if got := hint(full); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	if got := hint(&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}); got != "" {
		t.Errorf("got %q", got)
	}
}
