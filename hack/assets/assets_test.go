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

func TestNamedFolderTakesPrecedence(t *testing.T) {
	named, cached := t.TempDir(), t.TempDir()
	touch(t, filepath.Join(cached, "etcd"))
	if got, want := find("etcd", named, cached), filepath.Join(cached, "etcd"); got != want {
		t.Errorf("missing in the named folder: got %q, want %q", got, want)
	}
	touch(t, filepath.Join(named, "etcd"))
	if got, want := find("etcd", named, cached), filepath.Join(named, "etcd"); got != want {
		t.Errorf("in both: got %q, want %q", got, want)
	}
	if got := find("etcd", "", t.TempDir()); got != "" {
		t.Errorf("in none: got %q", got)
	}
}

func TestLinkToDeletedArchiveIsIgnored(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	if got := find("etcd", dir); got != "" {
		t.Errorf("found %q", got)
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
		t.Errorf("second lock while held: %v", err)
	}
	unlock()
	again, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatalf("lock after the first holder released it: %v", err)
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
		t.Errorf("file of the interrupted build still exists: %v", err)
	}
	if find("etcd", cache) == "" {
		t.Error("a finished program was removed too")
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
}
