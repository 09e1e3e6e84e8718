package assets

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestConfiguredFolderTakesPrecedenceOverCache(t *testing.T) {
	named, cached := t.TempDir(), t.TempDir()
	touch(t, filepath.Join(cached, "etcd"))
	if got, want := find("etcd", named, cached), filepath.Join(cached, "etcd"); got != want {
		t.Errorf("program only in the cache: got path %q, want %q", got, want)
	}
	touch(t, filepath.Join(named, "etcd"))
	if got, want := find("etcd", named, cached), filepath.Join(named, "etcd"); got != want {
		t.Errorf("program in both folders: got path %q, want %q", got, want)
	}
	if got := find("etcd", "", t.TempDir()); got != "" {
		t.Errorf("program in no folder: got path %q, want none", got)
	}
}

func TestLinkToDeletedArchiveIsIgnored(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	if got := find("etcd", dir); got != "" {
		t.Errorf("got path %q for a link to a deleted file, want none", got)
	}
}

func TestLockIsExclusiveAndRespectsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, path, io.Discard); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v from locking a locked file, want the context's deadline", err)
	}
	unlock()
	again, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatalf("got error %v from locking an unlocked file", err)
	}
	again()
}

func TestFilesOfInterruptedBuildAreRemoved(t *testing.T) {
	cache := t.TempDir()
	left := filepath.Join(cache, temporaryPrefix+"1")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	touch(t, filepath.Join(left, "kube-apiserver"))
	touch(t, filepath.Join(cache, "etcd"))
	if err := sweep(cache); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v for the folder of the interrupted build, want it removed", err)
	}
	if find("etcd", cache) == "" {
		t.Error("sweep removed a complete program")
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
}
