package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/hack/assets"
)

// seed is the path of a copy of etcd's data in the user's cache folder, or "". The copy contains the initial objects of
// an API server and the CRDs of both charts. Starting an API server with this copy saves about two seconds of CPU time.
// The path depends on the versions of the programs and on the CRDs.
type seed string

// unusedSeeds is the time after which an unused seed is removed.
const unusedSeeds = 7 * 24 * time.Hour

// seedFor returns the seed if crds are the CRDs of both charts, and "" for all other CRDs.
func seedFor(programs assets.Assets, crds []fs.FS) (seed, error) {
	if !slices.Equal(crds, []fs.FS{charts.PublisherCRDs}) {
		return "", nil
	}
	hash := sha256.New()
	for _, path := range []string{programs.KubeAPIServer, programs.Etcd} {
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("compute the path of the cached etcd data: %w", err)
		}
		fmt.Fprintln(hash, path, info.Size(), info.ModTime().UnixNano())
	}
	err := fs.WalkDir(charts.PublisherCRDs, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(charts.PublisherCRDs, name)
		fmt.Fprintln(hash, name, len(content))
		hash.Write(content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("compute the path of the cached etcd data: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return seed(filepath.Join(cache, "kyma-pull", "etcd", hex.EncodeToString(hash.Sum(nil)[:16]))), nil
}

// plant copies the seed to etcd's empty data folder. It returns false if the seed does not exist.
func (s seed) plant(data string) (bool, error) {
	if s == "" {
		return false, nil
	}
	now := time.Now() // keep does not remove recently used seeds
	if err := os.Chtimes(string(s), now, now); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("update the time of the cached etcd data: %w", err)
	}
	if err := os.CopyFS(data, os.DirFS(string(s))); err != nil {
		return false, fmt.Errorf("copy the cached etcd data: %w", err)
	}
	return true, nil
}

// keep copies etcd's data folder to the seed, and removes seeds that were not used for a week. It creates the seed by a
// rename, so the seed is never incomplete.
func (s seed) keep(data string) error {
	folder := filepath.Dir(string(s))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := removeUnused(folder, time.Now().Add(-unusedSeeds)); err != nil {
		return err
	}
	incomplete, err := os.MkdirTemp(folder, "incomplete-")
	if err != nil {
		return err
	}
	err = os.CopyFS(incomplete, os.DirFS(data))
	if err == nil {
		err = os.Rename(incomplete, string(s))
	}
	if err == nil {
		return nil
	}
	removed := os.RemoveAll(incomplete)
	if _, missing := os.Stat(string(s)); missing == nil { // another process created the seed first
		return removed
	}
	return errors.Join(err, removed)
}

// removeUnused removes the folders that were last used before a time.
func removeUnused(folder string, before time.Time) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removed it
		} else if err != nil {
			return err
		}
		if info.ModTime().Before(before) {
			if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
