package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/charts"
)

func TestEtcdDataIsCopiedToNewDataFolders(t *testing.T) {
	folder := t.TempDir()
	data := filepath.Join(folder, "data")
	if err := os.MkdirAll(filepath.Join(data, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "member", "db"), []byte("objects"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := seed(filepath.Join(folder, "seeds", "1"))
	if planted, err := s.plant(t.TempDir()); planted || err != nil {
		t.Fatalf("before keep: got %t, %v", planted, err)
	}
	for range 2 { // another process can keep the same seed
		if err := s.keep(data); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-unusedSeeds - time.Hour)
	if err := os.Chtimes(string(s), old, old); err != nil {
		t.Fatal(err)
	}
	later := t.TempDir()
	if planted, err := s.plant(later); !planted || err != nil {
		t.Fatalf("after keep: got %t, %v", planted, err)
	}
	if content, err := os.ReadFile(filepath.Join(later, "member", "db")); string(content) != "objects" {
		t.Errorf("the planted file contains %q, %v", content, err)
	}

	// A used seed stays. An unused seed is removed.
	unused := filepath.Join(folder, "seeds", "2")
	if err := os.Mkdir(unused, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(unused, old, old); err != nil {
		t.Fatal(err)
	}
	if err := seed(filepath.Join(folder, "seeds", "3")).keep(data); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(folder, "seeds", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if len(left) != 2 || left[0] != "1" || left[1] != "3" {
		t.Errorf("got seeds %v, want 1 and 3", left)
	}
}

func TestClustersHaveDifferentIdentities(t *testing.T) {
	var pool Pool
	uids := map[string]bool{}
	for range 2 {
		c, err := pool.Take(t.Context(), Options{CRDs: []fs.FS{charts.PublisherCRDs}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, c) })
		uids[identity(t, c.Config)] = true
	}
	if len(uids) != 2 {
		t.Error("two clusters with the same seed have the same UID of Namespace kube-system")
	}
}
