// Package statefile stores the last published bundle of each runtime and the last commit in a file. The command
// `publish` uses this file, because it does not have a control plane in which it could record the bundles and the
// commit. Reading the last bundle from the registry is not sufficient, because the registry's owner could have
// replaced it with an older one.
package statefile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
)

// File is a state file. If it was opened with Open, no other process can open it at the same time. A File is safe for
// concurrent use by several goroutines.
type File struct {
	path, location string
	mode           fs.FileMode  // the existing file's permissions, or 0
	lock           *flock.Flock // nil if the file was opened with Read
	// IsNew is true if the file did not exist when it was read.
	IsNew bool

	mu      sync.Mutex // guards the fields below
	state   state
	changed bool
}

// state is the file's content. Locations maps each location and runtime ID to the last published bundle. Commits maps
// each location to the last published commit. Removals maps each location and runtime ID to the decisions about
// removing modules, as in a Kyma's status.
type state struct {
	Version   int                                            `json:"version"`
	Locations map[string]map[string]*v1beta2.PublishedBundle `json:"locations"`
	Commits   map[string]git.AppliedCommit                   `json:"commits,omitempty"`
	Removals  map[string]map[string][]v1beta2.ModuleRemoval  `json:"removals,omitempty"`
}

const (
	version       = 1
	maxBytes      = 256 << 20
	retryInterval = 200 * time.Millisecond
)

// Open locks and reads a state file. If another process holds the lock, Open waits. Open treats a missing file as
// empty. location is the registry location of the bundles. One file can contain bundles for several locations.
func Open(ctx context.Context, path, location string) (*File, error) {
	path, mode, err := resolvePath(path)
	if err != nil {
		return nil, fmt.Errorf("open state file: %w", err)
	}
	lock := flock.New(path + ".lock")
	if _, err := lock.TryLockContext(ctx, retryInterval); err != nil {
		return nil, fmt.Errorf("lock state file %s: %w", path, err)
	}
	f := &File{path: path, mode: mode, location: location, lock: lock}
	if err = f.checkWritable(); err == nil {
		err = f.readState()
	}
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return f, nil
}

// resolvePath resolves symbolic links, because Save replaces the file that a link points to. It returns the file's path
// and permissions. The permissions are 0 if the file does not exist.
func resolvePath(path string) (string, fs.FileMode, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	if info.Mode().Perm()&0o200 == 0 {
		return "", 0, &fs.PathError{Op: "write", Path: path, Err: fs.ErrPermission}
	}
	path, err = filepath.EvalSymlinks(path)
	return path, info.Mode().Perm(), err
}

// Read reads a state file without locking it. A missing file is treated as empty. Save has no effect on the returned
// File.
func Read(path, location string) (*File, error) {
	f := &File{path: path, location: location}
	return f, f.readState()
}

// checkWritable returns an error if a file cannot be created in the folder of the state file. Open calls it, so that
// the error occurs before a bundle is pushed.
func (f *File) checkWritable() error {
	temporary, err := f.createTemporary()
	if err != nil {
		return err
	}
	return errors.Join(temporary.Close(), os.Remove(temporary.Name()))
}

func (f *File) createTemporary() (*os.File, error) {
	temporary, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+"-*")
	if err != nil {
		return nil, fmt.Errorf("write state file: %w", err)
	}
	return temporary, nil
}

func (f *File) readState() error {
	f.state = state{Version: version}
	f.state.addMaps()
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.IsNew = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("read state file: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("state file %s is a directory: choose a file, or move the directory", f.path)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("state file %s is not a regular file (%s): choose another file, or move "+
			"it", f.path, info.Mode().Type())
	}
	if info.Size() > maxBytes {
		return fmt.Errorf(
			"state file %s is %d bytes, must be at most %d: restore it from a backup, or delete it to start "+
				"without records",
			f.path, info.Size(), maxBytes)
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("read state file: %w", err)
	}
	f.state.Version = 0 // a file without the field version is invalid
	if err := json.Unmarshal(data, &f.state); err != nil {
		return fmt.Errorf("state file %s: %w: restore it from a backup, or delete it to start without records", f.path,
			err)
	}
	if f.state.Version != version {
		return fmt.Errorf(
			"state file %s has version %d, must be %d: use the program that wrote it, restore it from a backup, or "+
				"delete it to start without records", f.path, f.state.Version, version)
	}
	f.state.addMaps()
	return nil
}

// addMaps adds the maps that the file does not contain.
func (s *state) addMaps() {
	if s.Locations == nil {
		s.Locations = map[string]map[string]*v1beta2.PublishedBundle{}
	}
	if s.Commits == nil {
		s.Commits = map[string]git.AppliedCommit{}
	}
	if s.Removals == nil {
		s.Removals = map[string]map[string][]v1beta2.ModuleRemoval{}
	}
}

// LastBundle returns a runtime's last published bundle. It returns nil if the file does not contain the runtime.
func (f *File) LastBundle(runtime string) *v1beta2.PublishedBundle {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Locations[f.location][runtime].DeepCopy()
}

// SetBundle records a runtime's last published bundle. The file does not change until Save is called.
func (f *File) SetBundle(runtime string, published v1beta2.PublishedBundle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.state.Locations[f.location][runtime]; before != nil && before.Digest == published.Digest {
		return
	}
	if f.state.Locations[f.location] == nil {
		f.state.Locations[f.location] = map[string]*v1beta2.PublishedBundle{}
	}
	f.state.Locations[f.location][runtime] = &published
	f.changed = true
}

// LastCommit returns the commit from which bundles were last published. It is empty if no commit is recorded.
func (f *File) LastCommit() git.AppliedCommit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Commits[f.location]
}

// SetCommit records the commit from which bundles are published. The file does not change until Save is called.
func (f *File) SetCommit(commit git.AppliedCommit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Commits[f.location] == commit {
		return
	}
	f.state.Commits[f.location], f.changed = commit, true
}

// Removals returns the decisions about removing a runtime's modules.
func (f *File) Removals(runtime string) []v1beta2.ModuleRemoval {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.state.Removals[f.location][runtime])
}

// SetRemovals records the decisions about removing a runtime's modules. The file does not change until Save is
// called.
func (f *File) SetRemovals(runtime string, decided []v1beta2.ModuleRemoval) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if equality.Semantic.DeepEqual(f.state.Removals[f.location][runtime], decided) {
		return
	}
	f.changed = true
	if len(decided) == 0 {
		delete(f.state.Removals[f.location], runtime)
		return
	}
	if f.state.Removals[f.location] == nil {
		f.state.Removals[f.location] = map[string][]v1beta2.ModuleRemoval{}
	}
	f.state.Removals[f.location][runtime] = decided
}

// Save replaces the file atomically if its content has changed. It has no effect on a File that was opened
// with Read.
func (f *File) Save() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.changed || f.lock == nil {
		return nil
	}
	data, err := json.MarshalIndent(f.state, "", "  ")
	if err != nil {
		return fmt.Errorf("write state file %s: %w", f.path, err)
	}
	temporary, err := f.createTemporary()
	if err != nil {
		return err
	}
	if f.mode != 0 {
		err = temporary.Chmod(f.mode)
	}
	if err == nil {
		_, err = temporary.Write(append(data, '\n'))
	}
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), f.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write state file %s: %w", f.path, err), os.Remove(temporary.Name()))
	}
	if err := store.SyncFolder(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("write state file %s: %w", f.path, err)
	}
	f.changed = false
	return nil
}

// Close releases the file's lock.
func (f *File) Close() error {
	if f.lock == nil {
		return nil
	}
	return f.lock.Unlock()
}
