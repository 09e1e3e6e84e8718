// Package statefile remembers for `publish` what a control plane has in the status of its Kymas: which bundle was
// published last to each runtime of a location. The registry cannot say that: whoever owns it may put an old bundle
// back.
package statefile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// File is a state file, locked for one process. It is safe for concurrent use.
type File struct {
	path, location string
	mode           fs.FileMode  // that of the file that was there, 0 for none
	lock           *flock.Flock // nil where the file is only read
	// New says that there was no file.
	New bool

	mu      sync.Mutex // guards what follows
	state   state
	changed bool
}

// state is the content of the file: what was published, by location and runtime.
type state struct {
	Version   int                                            `json:"version"`
	Locations map[string]map[string]*v1beta2.PublishedBundle `json:"locations"`
}

const (
	version  = 1
	maxBytes = 256 << 20
	// tryAgain is how often a lock is asked for that another process has.
	tryAgain = 200 * time.Millisecond
)

// Open reads a state file for a location, and waits while another process uses it. A file that is not there is empty.
func Open(ctx context.Context, path, location string) (*File, error) {
	path, mode, err := locate(path)
	if err != nil {
		return nil, fmt.Errorf("open state file: %w", err)
	}
	lock := flock.New(path + ".lock")
	if _, err := lock.TryLockContext(ctx, tryAgain); err != nil {
		return nil, fmt.Errorf("lock state file %s: %w", path, err)
	}
	f := &File{path: path, mode: mode, location: location, lock: lock}
	if err = f.writable(); err == nil {
		err = f.read()
	}
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return f, nil
}

// locate returns the file that a path names, since a file takes the place of that and not of a link, and its mode, 0
// for none. A link is followed where the system lets this user follow it.
func locate(path string) (string, fs.FileMode, error) {
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

// Read reads a state file for a location and never writes it: what is remembered is forgotten with the process. A file
// that is not there is empty.
func Read(path, location string) (*File, error) {
	f := &File{path: path, location: location}
	return f, f.read()
}

// writable returns why the file could not be written: what is pushed and not remembered is told of too late.
func (f *File) writable() error {
	temporary, err := f.temporary()
	if err != nil {
		return err
	}
	return errors.Join(temporary.Close(), os.Remove(temporary.Name()))
}

func (f *File) temporary() (*os.File, error) {
	temporary, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+"-*")
	if err != nil {
		return nil, fmt.Errorf("write state file: %w", err)
	}
	return temporary, nil
}

func (f *File) read() error {
	f.state = state{Version: version, Locations: map[string]map[string]*v1beta2.PublishedBundle{}}
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.New = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("read state file: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("state file %s: is a folder: name a file, or move it away", f.path)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("state file %s: is %s: name a file, or move it away", f.path, info.Mode().Type())
	}
	if info.Size() > maxBytes {
		return fmt.Errorf("state file %s: %d bytes, at most %d: restore it from a backup, or delete it to start without memory", f.path, info.Size(), maxBytes)
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("read state file: %w", err)
	}
	f.state.Version = 0 // a file without one says nothing
	if err := json.Unmarshal(data, &f.state); err != nil {
		return fmt.Errorf("state file %s: %w: restore it from a backup, or delete it to start without memory", f.path, err)
	}
	if f.state.Version != version {
		return fmt.Errorf("state file %s: version is %d, want %d: use the program that wrote it, restore it from a backup, or delete it to start without memory", f.path, f.state.Version, version)
	}
	if f.state.Locations == nil {
		f.state.Locations = map[string]map[string]*v1beta2.PublishedBundle{}
	}
	return nil
}

// Last returns what was published last to a runtime, nil when nothing is remembered.
func (f *File) Last(runtime string) *v1beta2.PublishedBundle {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Locations[f.location][runtime].DeepCopy()
}

// Remember notes what was published. Save writes it.
func (f *File) Remember(runtime string, published v1beta2.PublishedBundle) {
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

// Save writes the file if anything changed: as a whole, or not at all. One that is only read stays as it is.
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
	temporary, err := f.temporary()
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

// Close lets other processes use the file.
func (f *File) Close() error {
	if f.lock == nil {
		return nil
	}
	return f.lock.Unlock()
}
