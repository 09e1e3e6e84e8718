package keys

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// WrittenFile describes a file that a command wrote.
type WrittenFile struct {
	File string `json:"file"`
	What string `json:"what"`
	Keep string `json:"keep"`
}

// InitOptions configures the first root of trust version.
type InitOptions struct {
	// Fleet is the fleet's name, or empty to generate one.
	Fleet string
	// Epoch is the root of trust's first epoch: 1 for a new fleet. If the new root of trust replaces a root whose keys
	// were lost, Epoch must be higher than the replaced root's epoch.
	Epoch int64
	// RootKeys is the number of root keys. Threshold is the number of root keys that must sign a new root.
	RootKeys, Threshold int
	Expires             time.Time
}

// Init creates a root of trust and all keys in the folder. It returns an error if one of these files already exists.
func (f Folder) Init(b InitOptions) (made []WrittenFile, err error) {
	if b.Threshold < 1 || b.Threshold > b.RootKeys {
		return nil, fmt.Errorf("the threshold is %d of %d root keys: must be at least 1 and at most the number of keys",
			b.Threshold, b.RootKeys)
	}
	if err := f.Make(); err != nil {
		return nil, err
	}
	err = f.WithLock(context.Background(), func(f Folder) error {
		made, err = f.init(b)
		return err
	})
	return made, err
}

// Make creates the folder if it does not exist.
func (f Folder) Make() error {
	if exists(f.Dir) {
		return nil
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(filepath.Clean(f.Dir)))
}

func (f Folder) init(b InitOptions) ([]WrittenFile, error) {
	for _, name := range []string{FileRoot, FileRootKey, FilePublisherKey, FileEnrollKey, FileTokenKey} {
		if _, err := os.Stat(f.path(name)); !errors.Is(err, os.ErrNotExist) {
			return nil,
				fmt.Errorf("%s already exists: replacing it would lock out all enrolled runtimes, so no file was "+
					"changed",
					f.path(name))
		}
	}
	if b.Fleet == "" {
		b.Fleet = strings.ToLower(rand.Text()[:12])
	}
	draft := trust.DraftRoot(b.Fleet, b.Epoch, b.Expires)
	files := &fileSet{folder: f}
	var signers []trust.Signer
	for i := range b.RootKeys {
		name := FileRootKey
		if i > 0 {
			name = fmt.Sprintf("root-%d.key", i+1)
		}
		signer, err := files.key(draft, trust.RoleRoot, name, "signs new versions of the root of trust", "offline",
			true)
		if err != nil {
			return nil, err
		}
		signers = append(signers, signer)
	}
	draft.SetThreshold(trust.RoleRoot, b.Threshold)
	if _, err := files.key(draft, trust.RolePublisher, FilePublisherKey, "signs bundles", "with kcp-publisher",
		false); err != nil {
		return nil, err
	}
	if _, err := files.key(draft, trust.RoleEnroll, FileEnrollKey, "signs agents' certificates", "with kcp-publisher",
		false); err != nil {
		return nil, err
	}
	token, err := newTokenSecret()
	if err != nil {
		return nil, err
	}
	files.add(FileTokenKey, "derives enrollment tokens", "with kcp-publisher", tokenFile(token), 0o600)
	if err := draft.Sign(signers[:b.Threshold]...); err != nil {
		return nil, err
	}
	root, err := draft.Bytes()
	if err != nil {
		return nil, err
	}
	if _, err := trust.ParseRoot(root); err != nil {
		return nil, err
	}
	files.add(FileRoot, "the root of trust, version 1", "public; pinned in every agent", root, 0o644)
	return f.Write(files.files)
}

// fileSet contains the files that a change writes together.
type fileSet struct {
	folder Folder
	files  []File
}

func (w *fileSet) add(name, what, keep string, data []byte, mode os.FileMode) {
	w.files = append(w.files, File{WrittenFile{w.folder.path(name), what, keep}, data, mode})
}

// key creates a key, adds it to a role in the root of trust draft, and adds the key's file to w.
func (w *fileSet) key(draft *trust.RootDraft, role, name, what, keep string, secret bool) (trust.Signer, error) {
	signer, data, err := w.folder.newKey(secret)
	if err != nil {
		return nil, err
	}
	public, err := signer.PublicKey()
	if err != nil {
		return nil, err
	}
	w.add(name, what, keep, data, 0o600)
	return signer, draft.Add(role, public)
}

// Change is a new root of trust version that is not signed yet, with the files that belong to it.
type Change struct {
	folder  Folder
	root    trust.Root
	draft   *trust.RootDraft
	files   *fileSet
	signers []trust.Signer
	// unrevoked is true after a call to LeaveUnrevoked.
	unrevoked bool
}

// LeaveUnrevoked makes later rotations remove keys without revoking them. The publisher continues from existing bundles
// that were signed with a removed key, but not from bundles that were signed with a revoked key.
func (c *Change) LeaveUnrevoked() { c.unrevoked = true }

// Change starts the next version of the root.
func (f Folder) Change(expires time.Time) (*Change, error) {
	root, err := f.Root()
	if err != nil {
		return nil, err
	}
	draft, err := root.Draft(expires)
	if err != nil {
		return nil, err
	}
	return &Change{folder: f, root: root, draft: draft, files: &fileSet{folder: f}}, nil
}

// Release adds a release key for components whose names start with a prefix. public is the path of the
// public key's file. threshold is the number of the prefix's keys that must sign each component. If it is 0, an
// existing prefix keeps its number, and a new one gets 1.
func (c *Change) Release(prefix, public string, threshold int) error {
	data, err := os.ReadFile(public)
	if err != nil {
		return err
	}
	key, err := decodePublic(public, data)
	if err != nil {
		return err
	}
	role := trust.RoleRelease + prefix
	if err := c.draft.Add(role, key); err != nil {
		return err
	}
	if threshold > 0 {
		c.draft.SetThreshold(role, threshold)
	}
	return nil
}

// Floor sets the minimum version of a component. Agents refuse older versions. An empty version removes the minimum.
func (c *Change) Floor(component, version string) error {
	if _, isSet := c.root.Floors[component]; version == "" && !isSet {
		return fmt.Errorf("component %s has no minimum version, so nothing was changed; `keys show` lists the minimum "+
			"versions", component)
	}
	c.draft.SetFloor(component, version)
	return nil
}

// Epoch starts a new epoch. In the new epoch, bundle sequences start again.
func (c *Change) Epoch() { c.draft.SetEpoch(c.root.Epoch + 1) }
