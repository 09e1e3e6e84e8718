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

// Made is a file that the command wrote.
type Made struct {
	File string `json:"file"`
	What string `json:"what"`
	Keep string `json:"keep"`
}

// Beginning configures the first version of a root of trust.
type Beginning struct {
	// Fleet is the fleet's name. Init generates one if it is empty.
	Fleet string
	// Epoch is 1, or higher for a fleet that starts again after it lost its root keys.
	Epoch int64
	// RootKeys is the number of root keys. Threshold is how many of them must sign a new root.
	RootKeys, Threshold int
	Expires             time.Time
}

// Init creates a root of trust and all keys in a folder that contains none of them.
func (f Folder) Init(b Beginning) (made []Made, err error) {
	if b.Threshold < 1 || b.Threshold > b.RootKeys {
		return nil, fmt.Errorf("a threshold of %d root keys cannot be met with %d", b.Threshold, b.RootKeys)
	}
	if err := f.Make(); err != nil {
		return nil, err
	}
	err = f.Exclusively(context.Background(), func(f Folder) error {
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

func (f Folder) init(b Beginning) ([]Made, error) {
	for _, name := range []string{FileRoot, FileRootKey, FilePublisherKey, FileEnrollKey, FileTokenKey} {
		if _, err := os.Stat(f.path(name)); !errors.Is(err, os.ErrNotExist) {
			return nil,
				fmt.Errorf("%s exists: runtimes that trust it would be lost, so nothing was changed", f.path(name))
		}
	}
	if b.Fleet == "" {
		b.Fleet = strings.ToLower(rand.Text()[:12])
	}
	draft := trust.DraftRoot(b.Fleet, b.Epoch, b.Expires)
	files := &written{folder: f}
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

// written are files that are written together.
type written struct {
	folder Folder
	files  []File
}

func (w *written) add(name, what, keep string, data []byte, mode os.FileMode) {
	w.files = append(w.files, File{Made{w.folder.path(name), what, keep}, data, mode})
}

// key creates a key, lists it under the role and adds its file.
func (w *written) key(draft *trust.RootDraft, role, name, what, keep string, secret bool) (trust.Signer, error) {
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

// Change is a new version of the root of trust before it is signed.
type Change struct {
	folder  Folder
	root    trust.Root
	draft   *trust.RootDraft
	files   *written
	signers []trust.Signer
	// unrevoked keeps keys that leave their role in a rotation off the list of revoked keys.
	unrevoked bool
}

// LeaveUnrevoked keeps keys that leave their role in a rotation unrevoked. During such a planned overlap the publisher
// still accepts their bundles as the fleet's own.
func (c *Change) LeaveUnrevoked() { c.unrevoked = true }

// Change begins the next version of the root.
func (f Folder) Change(expires time.Time) (*Change, error) {
	root, err := f.Root()
	if err != nil {
		return nil, err
	}
	draft, err := root.Draft(expires)
	if err != nil {
		return nil, err
	}
	return &Change{folder: f, root: root, draft: draft, files: &written{folder: f}}, nil
}

// Release lists a key that releases the components of a prefix.
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
	c.draft.SetThreshold(role, threshold)
	return nil
}

// Floor sets the lowest version of a component that can be installed.
func (c *Change) Floor(component, version string) { c.draft.SetFloor(component, version) }

// Epoch begins a new epoch, in which the sequences of bundles start again.
func (c *Change) Epoch() { c.draft.SetEpoch(c.root.Epoch + 1) }
