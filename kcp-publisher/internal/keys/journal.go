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

// The files of one change are written all or none, whatever ends the program or the machine:
//
//  1. every file is written into the folder staged+".tmp" and synchronized with the disk,
//  2. that folder is renamed to staged, which is the moment of the change,
//  3. the files are moved from there to their places.
//
// What is cut off before the second step is void, and the next change removes it. After it, whoever reads takes what is
// staged for what is in its place (locate), and the next change completes the third step.
const staged = ".staged"

// File is a file of the folder that was made.
type File struct {
	Made
	Data []byte
	Mode os.FileMode
}

// Write puts all of the files in their places, or none. The caller changes the folder exclusively.
func (f Folder) Write(files []File) ([]Made, error) {
	made, err := f.stage(files)
	if err != nil {
		// What is half written holds keys and takes the room that others need. Where it cannot be removed, the next change
		// does it.
		return nil, errors.Join(err, os.RemoveAll(f.path(staged+".tmp")))
	}
	f.at("synchronize")
	if err = syncFolder(f.Dir); err == nil {
		err = f.settle()
	}
	if err != nil {
		// The cause is only told: of a full disk that is among the errors, commands say to free space and to run them again.
		return made, fmt.Errorf("the change is in force, do not repeat it: the next command that changes key folder %s moves the rest from %s to its place: %s",
			f.Dir, staged, err.Error())
	}
	return made, nil
}

// stage makes the change: once it returns, whoever reads the folder finds the new files.
func (f Folder) stage(files []File) ([]Made, error) {
	making := f.path(staged + ".tmp")
	f.at("remove what was cut off")
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

// settle moves what is staged to its places, and removes what waited for a change that is in force.
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

// sweep removes next keys that are in use by now, and drafts of versions that are in force.
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
		return nil //nolint:nilerr // there is none yet, or whoever reads it says what is wrong with it
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

// finishInterrupted finishes what was cut off, by this program or by one of before that wrote its files one after the
// other.
func (f Folder) finishInterrupted() error {
	if err := f.settle(); err != nil {
		return err
	}
	root, err := f.Root()
	if err != nil {
		return nil //nolint:nilerr // there is none yet, or whoever reads it says what is wrong with it
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

// waitsFor reports whether a key that was made for this version of the root lies in the folder.
func (f Folder) waitsFor(root trust.Root) bool {
	for _, name := range []string{FilePublisherKey, FileEnrollKey} {
		if _, lists := f.nextKey(name, root); lists {
			return true
		}
	}
	return false
}

// nextKey returns the file of the key that waits to take the place of the named one, and whether the root lists it.
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

// locate returns where a file of the folder is: in its place, or staged by a change that was cut off.
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

// ReadFile reads a file of the folder as the last change left it.
func (f Folder) ReadFile(name string) ([]byte, error) { return f.read(name) }

// at tells a test which step comes.
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

// syncFolder makes the names in a folder last.
func syncFolder(path string) error {
	if err := store.SyncFolder(path); err != nil {
		return fmt.Errorf("synchronize %s: %w", path, err)
	}
	return nil
}
