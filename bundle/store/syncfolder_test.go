package store

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func TestFileSystemWithoutFolderSyncIsAccepted(t *testing.T) {
	for cause, fails := range map[syscall.Errno]bool{syscall.EINVAL: false, syscall.ENOTSUP: false, syscall.EIO: true,
		syscall.ENOSPC: true} {
		if err := unlessUnsupported(&fs.PathError{Op: "sync", Path: "/x", Err: cause}); (err != nil) != fails {
			t.Errorf("%v: got error %v, want an error: %t", cause, err, fails)
		}
	}
	dir := t.TempDir()
	if err := SyncFolder(dir); err != nil {
		t.Error(err)
	}
	if err := SyncFolder(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("missing folder: got no error, want an error")
	}
	if runtime.GOOS != "linux" {
		return
	}
	if err := SyncFolder("/proc/self"); err != nil { // a folder that does not support fsync
		t.Error(err)
	}
}
