package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// RootKeyFiles returns the paths of the root keys in the folder.
func (f Folder) RootKeyFiles() []string {
	found, _ := filepath.Glob(f.path("root*.key"))
	return found
}

// Finish signs the new version with these root keys. If the version then has enough signatures, it takes effect.
// Otherwise, Finish writes a draft file that the holders of the other root keys must sign.
func (c *Change) Finish(rootKeys []string) (made []WrittenFile, err error) {
	err = c.folder.WithLock(context.Background(), func(f Folder) error {
		now, err := f.read(FileRoot)
		if err != nil {
			return err
		}
		if !bytes.Equal(now, c.root.Raw) {
			current, err := f.Root()
			if err != nil {
				return err
			}
			return fmt.Errorf(
				"key folder %s: another program created root version %d concurrently, so nothing was changed: try "+
					"again", f.Dir, current.Version)
		}
		c.folder, c.files.folder = f, f
		made, err = c.finish(rootKeys)
		return err
	})
	return made, err
}

func (c *Change) finish(rootKeys []string) ([]WrittenFile, error) {
	for _, path := range rootKeys {
		signer, err := c.folder.signer(path)
		if err != nil {
			return nil, err
		}
		c.signers = append(c.signers, signer)
	}
	if err := c.draft.Sign(c.signers...); err != nil {
		return nil, err
	}
	data, err := c.draft.Bytes()
	if err != nil {
		return nil, err
	}
	root, err := c.root.Next(data)
	if err == nil {
		return c.folder.activate(c.files, c.root, root)
	}
	if !missesSignatures(data, err) {
		return nil, err
	}
	if err := c.checkPendingDraft(); err != nil {
		return nil, err
	}
	signatures, threshold := c.draft.CountSignatures()
	state := fmt.Sprintf("the next root of trust, with %d of at least %d signatures", signatures, threshold)
	c.files.add(draftName(c.draft.Version()), state, "until `keys sign` completes it", data, 0o644)
	return c.folder.Write(c.files.files)
}

// checkPendingDraft returns an error if the new draft would replace a key file while another draft for the same version
// exists. The other draft may list the key, and the key cannot be created again.
func (c *Change) checkPendingDraft() error {
	draft := draftName(c.draft.Version())
	if !exists(c.folder.path(draft)) {
		return nil
	}
	for _, file := range c.files.files {
		if exists(file.File) {
			return fmt.Errorf(
				"%s already exists and may belong to the draft %s, so nothing was changed: complete the draft with "+
					"`keys sign`, or delete it to create a new key", file.File, c.folder.path(draft))
		}
	}
	return nil
}

func draftName(version int64) string { return fmt.Sprintf("root-%d.draft.json", version) }

func missesSignatures(data []byte, err error) bool {
	_, broken := trust.OpenDraft(data)
	return broken == nil && trust.IsUnderSigned(err)
}

// activate writes the next root of trust version. The version's new keys, which are in files with the suffix .next,
// replace the current ones.
func (f Folder) activate(files *fileSet, current, root trust.Root) ([]WrittenFile, error) {
	for _, version := range []trust.Root{current, root} {
		switch there, err := f.read(historyFile(version.Version)); {
		case err == nil && !bytes.Equal(there, version.Raw):
			return nil,
				fmt.Errorf(
					"%s already contains a different root of trust with version %d: if the registry contains the "+
						"file's root as trust:%s, restore the newer key folder from a backup; otherwise move the "+
						"file to another folder",
					f.path(historyFile(version.Version)), version.Version, bundle.RootTag(version.Version))
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return nil, err
		}
	}
	files.activateNextKeys(root)
	files.add(historyFile(current.Version), "the previous version, kept for the history", "public", current.Raw, 0o644)
	files.add(historyFile(root.Version), "the same version, kept for the history", "public", root.Raw, 0o644)
	files.add(FileRoot, fmt.Sprintf("the root of trust, version %d", root.Version), "public", root.Raw, 0o644)
	return f.Write(files.files)
}

// activateNextKeys adds the keys in .next files as the current keys. It skips a key that the root of trust does not
// list.
func (w *fileSet) activateNextKeys(root trust.Root) {
	for _, name := range []string{FilePublisherKey, FileEnrollKey} {
		made := slices.IndexFunc(w.files, func(file File) bool { return filepath.Base(file.File) == name+nextSuffix })
		if made >= 0 {
			w.files[made].File = w.folder.path(name)
			continue
		}
		if data, listed := w.folder.nextKey(name, root); listed {
			w.add(name, "the key that was pending for this root", "with kcp-publisher", data, 0o600)
		}
	}
}

// Sign adds signatures to a draft. The draft takes effect once it has enough signatures.
func (f Folder) Sign(draft string, rootKeys []string) ([]WrittenFile, error) {
	data, err := os.ReadFile(draft)
	if err != nil {
		return nil, err
	}
	opened, err := trust.OpenDraft(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", draft, err)
	}
	root, err := f.Root()
	if err != nil {
		return nil, err
	}
	return (&Change{folder: f, root: root, draft: opened, files: &fileSet{folder: f}}).Finish(rootKeys)
}
