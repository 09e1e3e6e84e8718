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

// stagingFolder contains the files of a change that is in effect, until the files are moved to their final paths. A
// change's files are written atomically, even if the program or the machine crashes:
//
//  1. Every file is written into the folder stagingFolder+".tmp" and synchronized with the disk.
//  2. That folder is renamed to stagingFolder, which makes the change effective.
//  3. The files are moved from stagingFolder to their final paths.
//
// A change that is interrupted before step 2 has no effect. After step 2, readers read files in stagingFolder instead
// of those at the final paths. If step 3 is interrupted, the next change completes it.
const stagingFolder = ".staged"

// File is a file to write to the folder.
type File struct {
	WrittenFile
	Data []byte
	Mode os.FileMode
}

// Write writes all files or none. The caller must hold the folder's lock.
func (f Folder) Write(files []File) ([]WrittenFile, error) {
	made, err := f.commit(files)
	if err != nil {
		// If the incomplete files cannot be removed, the next change removes them.
		return nil, errors.Join(err, os.RemoveAll(f.path(stagingFolder+".tmp")))
	}
	f.reached("synchronize")
	if err = syncFolder(f.Dir); err == nil {
		err = f.finishStaged()
	}
	if err != nil {
		// Do not wrap the error, because for some wrapped errors, commands advise the user to run the command again.
		return made,
			fmt.Errorf(
				"the change is in effect, do not repeat it: the next command that changes key folder %s will move "+
					"the remaining files from %s: %s",
				f.Dir, stagingFolder, err.Error())
	}
	return made, nil
}

// commit performs steps 1 and 2 of a change: see stagingFolder. After commit returns, readers use the new files.
func (f Folder) commit(files []File) ([]WrittenFile, error) {
	making := f.path(stagingFolder + ".tmp")
	f.reached("remove an interrupted change")
	if err := os.RemoveAll(making); err != nil {
		return nil, err
	}
	f.reached("make the folder")
	if err := os.Mkdir(making, 0o700); err != nil {
		return nil, err
	}
	made := make([]WrittenFile, 0, len(files))
	for _, file := range files {
		f.reached("write " + file.File)
		if err := writeSynced(filepath.Join(making, filepath.Base(file.File)), file.Data, file.Mode); err != nil {
			return nil, err
		}
		made = append(made, file.WrittenFile)
	}
	if err := syncFolder(making); err != nil {
		return nil, err
	}
	f.reached("stage")
	return made, os.Rename(making, f.path(stagingFolder))
}

// finishStaged performs step 3 of a change: it moves the staged files to their final paths. It also removes obsolete
// .next files and drafts.
func (f Folder) finishStaged() error {
	entries, err := os.ReadDir(f.path(stagingFolder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	moved := err == nil
	for _, entry := range entries {
		f.reached("move " + entry.Name())
		if err := os.Rename(filepath.Join(f.path(stagingFolder), entry.Name()), f.path(entry.Name())); err != nil {
			return err
		}
	}
	if moved {
		if err := errors.Join(syncFolder(f.path(stagingFolder)), syncFolder(f.Dir)); err != nil {
			return err
		}
		f.reached("remove the folder")
		if err := os.Remove(f.path(stagingFolder)); err != nil {
			return err
		}
	}
	return f.removeObsolete()
}

// removeObsolete removes .next files for keys that are in use, and drafts for versions that are in effect.
func (f Folder) removeObsolete() error {
	for _, name := range []string{FilePublisherKey, FileEnrollKey} {
		waiting, err := os.ReadFile(f.path(name + nextSuffix))
		if err != nil {
			continue
		}
		if inUse, err := os.ReadFile(f.path(name)); err == nil && bytes.Equal(waiting, inUse) {
			f.reached("remove " + name + nextSuffix)
			if err := os.Remove(f.path(name + nextSuffix)); err != nil {
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
			f.reached("remove " + draft)
			if err := os.Remove(draft); err != nil {
				return err
			}
		}
	}
	return nil
}

// finishInterrupted completes an interrupted change. This includes a change by a program version without a staging
// folder, which wrote the files one by one.
func (f Folder) finishInterrupted() error {
	if err := f.finishStaged(); err != nil {
		return err
	}
	root, err := f.Root()
	if err != nil {
		return nil //nolint:nilerr // the root does not exist yet, or its next use returns the error
	}
	files := &fileSet{folder: f}
	if data, err := os.ReadFile(f.path(historyFile(root.Version + 1))); err == nil {
		if following, err := root.Next(data); err == nil && f.hasPendingKey(following) {
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

// hasPendingKey reports whether the root of trust lists a key that is still in a .next file.
func (f Folder) hasPendingKey(root trust.Root) bool {
	for _, name := range []string{FilePublisherKey, FileEnrollKey} {
		if _, lists := f.nextKey(name, root); lists {
			return true
		}
	}
	return false
}

// nextKey returns the content of a key's .next file, and reports whether the root of trust lists the key.
func (f Folder) nextKey(name string, root trust.Root) (data []byte, listed bool) {
	data, err := f.read(name + nextSuffix)
	if err != nil {
		return nil, false
	}
	signer, err := f.decode(name+nextSuffix, data)
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
	return data, err == nil && root.TrustsKey(thumbprint)
}

// locate returns the current path of a file: the path in the staging folder if an interrupted change has not moved the
// file yet, and the final path otherwise.
func (f Folder) locate(name string) string {
	if path := filepath.Join(f.path(stagingFolder), name); exists(path) {
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

func (f Folder) reached(step string) {
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
