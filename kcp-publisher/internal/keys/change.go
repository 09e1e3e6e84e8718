package keys

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore/pkg/signature/kms"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Made is one file that was written.
type Made struct {
	File string `json:"file"`
	What string `json:"what"`
	Keep string `json:"keep"`
}

// Beginning says how a fleet's root of trust begins.
type Beginning struct {
	// Fleet names the fleet; empty makes a name up.
	Fleet string
	// Epoch is 1, or more for a fleet that starts anew because it lost its root keys.
	Epoch int64
	// RootKeys is how many root keys there are, Threshold how many of them a new root takes.
	RootKeys, Threshold int
	Expires             time.Time
}

// Init makes a root of trust and all keys, in a folder that has none of them.
func (f Folder) Init(b Beginning) ([]Made, error) {
	if b.Threshold < 1 || b.Threshold > b.RootKeys {
		return nil, fmt.Errorf("a threshold of %d root keys cannot be met with %d", b.Threshold, b.RootKeys)
	}
	for _, name := range []string{FileRoot, FileRootKey, FilePublisherKey, FileEnrollKey, FileTokenKey} {
		if _, err := os.Stat(f.path(name)); !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s exists: runtimes that trust it would be lost, so nothing was changed", f.path(name))
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
		signer, err := files.key(draft, trust.RoleRoot, name, "signs new versions of the root of trust", "offline", true)
		if err != nil {
			return nil, err
		}
		signers = append(signers, signer)
	}
	draft.SetThreshold(trust.RoleRoot, b.Threshold)
	if _, err := files.key(draft, trust.RolePublisher, FilePublisherKey, "signs bundles", "with kcp-publisher", false); err != nil {
		return nil, err
	}
	if _, err := files.key(draft, trust.RoleEnroll, FileEnrollKey, "signs agents' certificates", "with kcp-publisher", false); err != nil {
		return nil, err
	}
	token := make([]byte, 32)
	if _, err := rand.Read(token); err != nil {
		return nil, err
	}
	files.add(FileTokenKey, "derives enrollment tokens", "with kcp-publisher", fmt.Appendf(nil, "%x\n", token), 0o600)
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
	return files.write()
}

// written are files to be written together.
type written struct {
	folder Folder
	files  []file
}

type file struct {
	Made
	data []byte
	mode os.FileMode
}

func (w *written) add(name, what, keep string, data []byte, mode os.FileMode) {
	w.files = append(w.files, file{Made{w.folder.path(name), what, keep}, data, mode})
}

// key makes a key, lists it under the role and adds its file.
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

// write puts every file in its place at once, so that nobody reads half of one.
func (w *written) write() ([]Made, error) {
	if err := os.MkdirAll(w.folder.Dir, 0o700); err != nil {
		return nil, err
	}
	made := make([]Made, 0, len(w.files))
	for _, f := range w.files {
		temporary := f.File + ".tmp"
		if err := os.WriteFile(temporary, f.data, f.mode); err != nil {
			return made, err
		}
		if err := os.Rename(temporary, f.File); err != nil {
			return made, err
		}
		made = append(made, f.Made)
	}
	return made, nil
}

// Change is a new version of the root of trust in the making.
type Change struct {
	folder  Folder
	root    trust.Root
	draft   *trust.RootDraft
	files   *written
	signers []trust.Signer
}

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

// Rotate lists a new key of a role and makes it the one to sign with. The old ones stay listed, so that what they signed is accepted
// until everything is signed anew, unless dropOld says otherwise; those that were replaced before are dropped. An empty public makes a
// key; else it is a file or a reference to a KMS with the key to list.
func (c *Change) Rotate(ctx context.Context, role, public string, dropOld bool) error {
	listed := map[string][]string{trust.RolePublisher: c.root.Publishers(), trust.RoleEnroll: c.root.Enrollers()}[role]
	name, what := FilePublisherKey, "signs bundles"
	if role == trust.RoleEnroll {
		name, what = FileEnrollKey, "signs agents' certificates"
	}
	if public != "" {
		key, err := publicKey(ctx, public)
		if err != nil {
			return err
		}
		if err := c.draft.Add(role, key); err != nil {
			return err
		}
	} else if _, err := c.files.key(c.draft, role, name+next, what, "with kcp-publisher", false); err != nil {
		return err
	}
	keep := ""
	if !dropOld {
		keep = c.inUse(ctx, role)
	}
	for _, old := range listed {
		if old != keep {
			if err := c.draft.Remove(role, old); err != nil {
				return err
			}
		}
	}
	return nil
}

// inUse returns the thumbprint of the key that signs now, empty when it is not at hand.
func (c *Change) inUse(ctx context.Context, role string) string {
	keys, err := c.folder.Load(ctx)
	if err != nil {
		return ""
	}
	signer := keys.Signer
	if role == trust.RoleEnroll {
		signer = keys.Enroll
	}
	if signer == nil {
		return ""
	}
	public, err := signer.PublicKey()
	if err != nil {
		return ""
	}
	thumbprint, _ := trust.Thumbprint(public)
	return thumbprint
}

// RotateRoot replaces a root key, named by its thumbprint or, if it is the only one, empty.
func (c *Change) RotateRoot(old string) error {
	signers, _ := c.root.Signers()
	if old == "" && len(signers) == 1 {
		old = signers[0]
	}
	if old == "" {
		return fmt.Errorf("say which of the root keys is replaced: %s", strings.Join(signers, ", "))
	}
	if err := c.draft.Remove(trust.RoleRoot, old); err != nil {
		return err
	}
	name := fmt.Sprintf("root-v%d.key", c.draft.Version())
	signer, err := c.files.key(c.draft, trust.RoleRoot, name, "signs new versions of the root of trust", "offline", true)
	if err != nil {
		return err
	}
	c.signers = append(c.signers, signer)
	return nil
}

// Revoke takes a key out for good.
func (c *Change) Revoke(thumbprint string) error {
	if c.root.Trusts(thumbprint) && len(c.root.Publishers()) == 1 {
		return fmt.Errorf("key %s is the only publisher key: list another first with `keys rotate publisher`", thumbprint)
	}
	return c.draft.Revoke(thumbprint)
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

// Floor sets the lowest version of a component that may be installed.
func (c *Change) Floor(component, version string) { c.draft.SetFloor(component, version) }

// Epoch begins a new epoch, in which the sequences of bundles start over.
func (c *Change) Epoch() { c.draft.SetEpoch(c.root.Epoch + 1) }

func publicKey(ctx context.Context, reference string) (crypto.PublicKey, error) {
	if strings.Contains(reference, "://") {
		signer, err := kms.Get(ctx, reference, crypto.SHA256)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", reference, err)
		}
		return signer.PublicKey()
	}
	data, err := os.ReadFile(reference)
	if err != nil {
		return nil, err
	}
	return decodePublic(reference, data)
}

func decodePublic(path string, data []byte) (crypto.PublicKey, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, fmt.Errorf("%s: want exactly one PEM block PUBLIC KEY", path)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// RootKeyFiles are the root keys that the folder has.
func (f Folder) RootKeyFiles() []string {
	found, _ := filepath.Glob(f.path("root*.key"))
	return found
}

// Finish signs the new version with root keys and, if they are enough, puts it in force. Else a draft is written for the others to sign.
func (c *Change) Finish(rootKeys []string) ([]Made, error) {
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
	if _, err := c.root.Next(data); err != nil {
		if !missesSignatures(data, err) {
			return nil, err
		}
		c.files.add(draftName(c.draft.Version()), "the next root of trust, not signed by enough yet: "+err.Error(), "until `keys sign` completes it", data, 0o644)
		return c.files.write()
	}
	return c.folder.putInForce(c.files, data, c.draft.Version())
}

func draftName(version int64) string { return fmt.Sprintf("root-%d.draft.json", version) }

// missesSignatures tells a version that others must sign from one that is wrong in itself.
func missesSignatures(data []byte, err error) bool {
	_, broken := trust.OpenDraft(data)
	return broken == nil && trust.LacksSignatures(err)
}

// putInForce adds the root and takes up the keys that waited for it.
func (f Folder) putInForce(files *written, data []byte, version int64) ([]Made, error) {
	root, err := trust.ParseRoot(data)
	if err != nil {
		return nil, err
	}
	current, err := f.Root()
	if err != nil {
		return nil, err
	}
	files.add(history(current.Version), "the version before, kept", "public", current.Raw, 0o644)
	files.add(history(version), "the same, kept when there are newer versions", "public", data, 0o644)
	files.add(FileRoot, fmt.Sprintf("the root of trust, version %d", version), "public", data, 0o644)
	made, err := files.write()
	if err != nil {
		return made, err
	}
	for _, name := range []string{FilePublisherKey, FileEnrollKey} {
		signer, err := f.signer(f.path(name + next))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return made, err
		}
		public, err := signer.PublicKey()
		if err != nil {
			return made, err
		}
		thumbprint, err := trust.Thumbprint(public)
		if err != nil {
			return made, err
		}
		if !root.Trusts(thumbprint) && !root.TrustsEnroll(thumbprint) {
			continue
		}
		if err := os.Rename(f.path(name+next), f.path(name)); err != nil {
			return made, err
		}
		for i := range made {
			made[i].File = strings.TrimSuffix(made[i].File, next)
		}
	}
	_ = os.Remove(f.path(draftName(version)))
	return slices.Clip(made), nil
}

// Sign adds signatures to a draft and puts it in force when they are enough.
func (f Folder) Sign(draft string, rootKeys []string) ([]Made, error) {
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
	c := &Change{folder: f, root: root, draft: opened, files: &written{folder: f}}
	return c.Finish(rootKeys)
}
