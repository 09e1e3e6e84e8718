package store

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func TestFolderWithoutSyncIsAccepted(t *testing.T) {
	for cause, fails := range map[syscall.Errno]bool{syscall.EINVAL: false, syscall.ENOTSUP: false, syscall.EIO: true,
		syscall.ENOSPC: true} {
		if err := unlessUnsupported(&fs.PathError{Op: "sync", Path: "/x", Err: cause}); (err != nil) != fails {
			t.Errorf("%v: %v", cause, err)
		}
	}
	dir := t.TempDir()
	if err := SyncFolder(dir); err != nil {
		t.Error(err)
	}
	if err := SyncFolder(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("there is no such folder")
	}
	if runtime.GOOS != "linux" {
		return
	}
	if err := SyncFolder("/proc/self"); err != nil { // which no one can synchronize
		t.Error(err)
	}
}
