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

// blobsIn returns the contents of the blob files in a folder by name.
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

// sameBlobs checks that a folder has exactly the wanted blobs.
func sameBlobs(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := blobsIn(t, dir)
	for name, content := range want {
		if got[name] != content {
			t.Errorf("got blob %s with %d bytes, want the original %d bytes", name, len(got[name]), len(content))
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d blobs, want %d", len(got), len(want))
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
	dir, _ := strings.CutPrefix(undisturbed.Target.String(), "oci-layout:")
	want := blobsIn(t, dir)
	clitest.EachShortage(t, func(dir string) {
		_, err := s.importer(filepath.Join(dir, "target")).Import(t.Context(), []string{first})
		must(t, err)
	}, func(t *testing.T, disk clitest.Disk) bool {
		target := filepath.Join(disk.Dir, "target")
		_, err := s.importer(target).Import(t.Context(), []string{second})
		if err != nil {
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), target) {
				t.Errorf("got error %v, want ENOSPC and the target in it", err)
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

func TestDamagedTargetFileIsReplacedOrReported(t *testing.T) {
	s := newSender(t)
	file, target := s.next(1, false, "keda"), filepath.Join(t.TempDir(), "target")
	_, err := s.importer(target).Import(t.Context(), []string{file})
	must(t, err)
	want := blobsIn(t, target)
	clitest.EachDamage(t, target, func(t *testing.T, path string) {
		if _, err := s.importer(target).Import(t.Context(), []string{file}); err != nil {
			if !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Errorf("got error %v, want the name of the damaged file %s in it", err, path)
			}
			must(t, os.RemoveAll(path))
			_, err := s.importer(target).Import(t.Context(), []string{file})
			must(t, err)
		}
		whole(t, s.importer(target), "keda")
		sameBlobs(t, target, want)
	})
}
