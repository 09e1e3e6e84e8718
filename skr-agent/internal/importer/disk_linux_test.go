package importer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli/clitest"
)

// blobsIn returns the content of each blob file of a folder.
func blobsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found[entry.Name()] = string(data)
		return err
	}))
	return found
}

// sameBlobs fails the test unless the folder has the blobs of an uninterrupted import.
func sameBlobs(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := blobsIn(t, dir)
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s: differs or is missing: %d bytes, want %d", name, len(got[name]), len(content))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d blobs, want %d", len(got), len(want))
	}
}

func TestImportContinuesAfterFullDisk(t *testing.T) {
	s := newSender(t)
	first, second := s.next(1, false, "keda"), s.next(2, true, "keda", "nats")
	undisturbed := s.importer(filepath.Join(t.TempDir(), "target"))
	for _, file := range []string{first, second} {
		_, err := undisturbed.Import(t.Context(), []string{file})
		must(t, err)
	}
	dir, _ := strings.CutPrefix(undisturbed.To.String(), "oci-layout:")
	want := blobsIn(t, dir)
	clitest.EachShortage(t, func(dir string) {
		_, err := s.importer(filepath.Join(dir, "target")).Import(t.Context(), []string{first})
		must(t, err)
	}, func(t *testing.T, disk clitest.Disk) bool {
		target := filepath.Join(disk.Dir, "target")
		_, err := s.importer(target).Import(t.Context(), []string{second})
		if err != nil {
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), target) {
				t.Errorf("failed with %v", err)
			}
			if sequence := sequenceAt(t, s.importer(target)); sequence == 1 {
				whole(t, s.importer(target), "keda")
			}
			disk.Grow()
			_, err := s.importer(target).Import(t.Context(), []string{second})
			must(t, err)
		}
		whole(t, s.importer(target), "keda", "nats")
		sameBlobs(t, target, want)
		return err == nil
	})
}

func TestDamagedTargetFileIsReplacedOrNamed(t *testing.T) {
	s := newSender(t)
	file, target := s.next(1, false, "keda"), filepath.Join(t.TempDir(), "target")
	_, err := s.importer(target).Import(t.Context(), []string{file})
	must(t, err)
	want := blobsIn(t, target)
	clitest.EachDamage(t, target, func(t *testing.T, path string) {
		if _, err := s.importer(target).Import(t.Context(), []string{file}); err != nil {
			if !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Errorf("does not name %s: %v", path, err)
			}
			must(t, os.RemoveAll(path))
			_, err := s.importer(target).Import(t.Context(), []string{file})
			must(t, err)
		}
		whole(t, s.importer(target), "keda")
		sameBlobs(t, target, want)
	})
}
