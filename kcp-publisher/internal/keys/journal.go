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

// The files of a change are written atomically, even if the program or the machine crashes:
//
// 1. every file is written into the folder staged+".tmp" and synchronized with the disk,
// 2. that folder is renamed to staged, which makes the change effective,
// 3. the files are moved from staged to their final paths.
//
// A change that is interrupted before step 2 has no effect. After step 2, readers prefer staged files, and the next
// change completes step 3.
const staged = ".staged"

// File is a file to write to the folder.
type File struct {
	Made
	Data []byte
	Mode os.FileMode
}

// Write writes all files or none. The caller must hold the folder's lock.
func (f Folder) Write(files []File) ([]Made, error) {
	made, err := f.commit(files)
	if err != nil {
		// If the incomplete files cannot be removed, the next change removes them.
		return nil, errors.Join(err, os.RemoveAll(f.path(staged+".tmp")))
	}
	f.at("synchronize")
	if err = syncFolder(f.Dir); err == nil {
		err = f.settle()
	}
	if err != nil {
		// Do not wrap the error, because commands advise to run again after some wrapped errors.
		return made,
			fmt.Errorf(
				"the change is in effect, do not repeat it: the next command that changes key folder %s will move "+
					"the remaining files from %s: %s",
				f.Dir, staged, err.Error())
	}
	return made, nil
}

// After commit returns, readers use the new files.
func (f Folder) commit(files []File) ([]Made, error) {
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

// settle moves staged files to their final paths, and removes obsolete .next files and drafts.
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
	return f.removeObsolete()
}

// removeObsolete removes .next files of keys that are in use, and drafts of versions that are in effect.
func (f Folder) removeObsolete() error {
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
		return nil //nolint:nilerr // the root does not exist yet, or its next use returns the error
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

// The change may also be from an older version, which wrote files one by one.
func (f Folder) finishInterrupted() error {
	if err := f.settle(); err != nil {
		return err
	}
	root, err := f.Root()
	if err != nil {
		return nil //nolint:nilerr // the root does not exist yet, or its next use returns the error
	}
	files := &written{folder: f}
	if data, err := os.ReadFile(f.path(history(root.Version + 1))); err == nil {
		if following, err := root.Next(data); err == nil && f.waitsFor(following) {
			root = following
			files.add(FileRoot, "", "", data, 0o644)
		}
	}
	files.activateNextKeys(root)
	if len(files.files) == 0 {
		return nil
	}
	_, err = f.Write(files.files)
	return err
}

// waitsFor reports whether the root lists a .next key of the folder.
func (f Folder) waitsFor(root trust.Root) bool {
	for _, name := range []string{FilePublisherKey, FileEnrollKey} {
		if _, lists := f.nextKey(name, root); lists {
			return true
		}
	}
	return false
}

// nextKey returns the content of a key's .next file, and reports whether the root lists the key.
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

// locate returns the path of a file, which an interrupted change may have staged.
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

func (f Folder) read(name string) ([]byte, error) { return os.ReadFile(f.locate(name)) }

// ReadFile reads a file in the folder, including staged files.
func (f Folder) ReadFile(name string) ([]byte, error) { return f.read(name) }

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

func syncFolder(path string) error {
	if err := store.SyncFolder(path); err != nil {
		return fmt.Errorf("synchronize %s: %w", path, err)
	}
	return nil
}
