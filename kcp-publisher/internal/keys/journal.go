package keys

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// The files of one change are written all or not at all, even if the program or the machine stops:
//
//  1. every file is written into the folder staged+".tmp" and synchronized with the disk,
//  2. that folder is renamed to staged, which makes the change effective,
//  3. the files are moved from there to their places.
//
// A change that stops before step 2 has no effect, and the next change removes it. After step 2, readers prefer a
// staged file to the one in its place (locate), and the next change completes step 3.
const staged = ".staged"

// File is a file that was written to the folder.
type File struct {
	Made
	Data []byte
	Mode os.FileMode
}

// Write writes all of the files or none. The caller holds the folder's lock.
func (f Folder) Write(files []File) ([]Made, error) {
	made, err := f.stage(files)
	if err != nil {
		// Incomplete files contain keys and use disk space. If they cannot be removed, the next change removes them.
		return nil, errors.Join(err, os.RemoveAll(f.path(staged+".tmp")))
	}
	f.at("synchronize")
	if err = syncFolder(f.Dir); err == nil {
		err = f.settle()
	}
	if err != nil {
		// The cause is only text. If a wrapped error meant a full disk, commands would advise to free space and to run
		// again.
		return made,
			fmt.Errorf(
				"the change is in effect, do not repeat it: the next command that changes key folder %s moves the "+
					"remaining files from %s: %s",
				f.Dir, staged, err.Error())
	}
	return made, nil
}

// stage makes the change effective: once it returns, readers find the new files.
func (f Folder) stage(files []File) ([]Made, error) {
	making := f.path(staged + ".tmp")
	f.at("remove an interrupted change")
	if err := os.RemoveAll(making); err != nil {
		return nil, err
	}
	f.at("make the folder")
	if err := os.Mkdir(making, 0o700); err != nil {
		return nil, err
	}
	made := make([]Made, 0, len(files))
	for _, file := range files {
		f.at("write " + file.File)
		if err := writeSynced(filepath.Join(making, filepath.Base(file.File)), file.Data, file.Mode); err != nil {
			return nil, err
		}
		made = append(made, file.Made)
	}
	if err := syncFolder(making); err != nil {
		return nil, err
	}
	f.at("stage")
	return made, os.Rename(making, f.path(staged))
}

// settle moves staged files to their places and removes files that waited for an effective change.
func (f Folder) settle() error {
	entries, err := os.ReadDir(f.path(staged))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	moved := err == nil
	for _, entry := range entries {
		f.at("move " + entry.Name())
		if err := os.Rename(filepath.Join(f.path(staged), entry.Name()), f.path(entry.Name())); err != nil {
			return err
		}
	}
	if moved {
		if err := errors.Join(syncFolder(f.path(staged)), syncFolder(f.Dir)); err != nil {
			return err
		}
		f.at("remove the folder")
		if err := os.Remove(f.path(staged)); err != nil {
			return err
		}
	}
	return f.sweep()
}

// sweep removes next keys that are in use, and drafts of versions that are in effect.
func (f Folder) sweep() error {
	for _, name := range []string{FilePublisherKey, FileEnrollKey} {
		waiting, err := os.ReadFile(f.path(name + next))
		if err != nil {
			continue
		}
		if inUse, err := os.ReadFile(f.path(name)); err == nil && bytes.Equal(waiting, inUse) {
			f.at("remove " + name + next)
			if err := os.Remove(f.path(name + next)); err != nil {
				return err
			}
		}
	}
	drafts, err := filepath.Glob(f.path("root-*.draft.json"))
	if err != nil || len(drafts) == 0 {
		return err
	}
	root, err := readRoot(f.path(FileRoot))
	if err != nil {
		return nil //nolint:nilerr // it does not exist yet, or its reader returns the error
	}
	for _, draft := range drafts {
		number := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(draft), "root-"), ".draft.json")
		if version, err := strconv.ParseInt(number, 10, 64); err == nil && version <= root.Version {
			f.at("remove " + draft)
			if err := os.Remove(draft); err != nil {
				return err
			}
		}
	}
	return nil
}

// finishInterrupted completes a change that was interrupted, of this program or of an earlier version that wrote its
// files one by one.
func (f Folder) finishInterrupted() error {
	if err := f.settle(); err != nil {
		return err
	}
	root, err := f.Root()
	if err != nil {
		return nil //nolint:nilerr // it does not exist yet, or its reader returns the error
	}
	files := &written{folder: f}
	if data, err := os.ReadFile(f.path(history(root.Version + 1))); err == nil {
		if following, err := root.Next(data); err == nil && f.waitsFor(following) {
			root = following
			files.add(FileRoot, "", "", data, 0o644)
		}
	}
	files.takeUp(root)
	if len(files.files) == 0 {
		return nil
	}
	_, err = f.Write(files.files)
	return err
}

// waitsFor reports whether the folder has a key that was created for this version of the root.
func (f Folder) waitsFor(root trust.Root) bool {
	for _, name := range []string{FilePublisherKey, FileEnrollKey} {
		if _, lists := f.nextKey(name, root); lists {
			return true
		}
	}
	return false
}

// nextKey returns the file of the key that will replace the named one, and whether the root lists it.
func (f Folder) nextKey(name string, root trust.Root) (data []byte, listed bool) {
	data, err := f.read(name + next)
	if err != nil {
		return nil, false
	}
	signer, err := f.decode(name+next, data)
	if err != nil {
		return nil, false
	}
	public, err := signer.PublicKey()
	if err != nil {
		return nil, false
	}
	thumbprint, err := trust.Thumbprint(public)
	if name == FileEnrollKey {
		return data, err == nil && root.TrustsEnroll(thumbprint)
	}
	return data, err == nil && root.Trusts(thumbprint)
}

// locate returns the path of a file of the folder: its place, or staged by an interrupted change.
func (f Folder) locate(name string) string {
	if path := filepath.Join(f.path(staged), name); exists(path) {
		return path
	}
	return f.path(name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// read reads a file of the folder.
func (f Folder) read(name string) ([]byte, error) { return os.ReadFile(f.locate(name)) }

// ReadFile reads a file of the folder in the state of the last change.
func (f Folder) ReadFile(name string) ([]byte, error) { return f.read(name) }

// at announces the next step to a test.
func (f Folder) at(step string) {
	if f.step != nil {
		f.step(step)
	}
}

func writeSynced(path string, data []byte, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

// syncFolder makes the folder's names durable.
func syncFolder(path string) error {
	if err := store.SyncFolder(path); err != nil {
		return fmt.Errorf("synchronize %s: %w", path, err)
	}
	return nil
}
