package keys

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature/kms/fake"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

var until = time.Now().AddDate(1, 0, 0)

type world struct {
	*testing.T
	Folder
}

func newWorld(t *testing.T, b InitOptions, passphrase string) *world {
	t.Helper()
	w := &world{t, Folder{Dir: filepath.Join(t.TempDir(), "keys"), Passphrase: []byte(passphrase)}}
	b.Expires = until
	if b.RootKeys == 0 {
		b.RootKeys, b.Threshold, b.Epoch = 1, 1, 1
	}
	_, err := w.Init(b)
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) root() trust.Root {
	w.Helper()
	root, err := w.Root()
	w.must(err)
	return root
}

// signer returns the thumbprint of the publisher key. It fails the test if the root of trust does not list the key.
func (w *world) signer() string {
	w.Helper()
	loaded, err := w.Load(w.Context())
	w.must(err)
	public, err := loaded.Signer.PublicKey()
	w.must(err)
	thumbprint, err := trust.Thumbprint(public)
	w.must(err)
	if !loaded.Root.TrustsKey(thumbprint) {
		w.Errorf("root version %d does not list publisher key %s", loaded.Root.Version, thumbprint)
	}
	return thumbprint
}

func (w *world) change(rootKeys []string, change func(*Change) error) []WrittenFile {
	w.Helper()
	c, err := w.Change(until)
	w.must(err)
	w.must(change(c))
	made, err := c.Finish(rootKeys)
	w.must(err)
	return made
}

func rotatePublisher(ctx context.Context, dropOld bool) func(*Change) error {
	return func(c *Change) error { return c.Rotate(ctx, trust.RolePublisher, "", dropOld) }
}

func TestRotateKeepsPreviousPublisherKeyAccepted(t *testing.T) {
	w := newWorld(t, InitOptions{}, "")
	first, one := w.root(), w.signer()
	w.change(w.RootKeyFiles(), rotatePublisher(t.Context(), false))
	second, two := w.root(), w.signer()
	if _, err := first.Next(second.Raw); err != nil {
		t.Fatal(err)
	}
	if two == one || !second.TrustsKey(one) || len(second.Publishers()) != 2 {
		t.Errorf("first rotation from %s to %s: the root lists %v", one, two, second.Publishers())
	}
	w.change(w.RootKeyFiles(), rotatePublisher(t.Context(), false))
	third, three := w.root(), w.signer()
	if third.TrustsKey(one) || !third.TrustsKey(two) || !third.TrustsKey(three) || third.Version != 3 {
		t.Errorf("second rotation, keys %s, %s and %s: the root lists %v", one, two, three, third.Publishers())
	}
	loaded, err := w.Load(t.Context())
	w.must(err)
	if len(loaded.FormerRoots) != 2 || loaded.FormerRoots[0].Version != 1 {
		t.Errorf("got %d earlier roots, want 2", len(loaded.FormerRoots))
	}
	w.change(w.RootKeyFiles(), rotatePublisher(t.Context(), true))
	if got := w.root().Publishers(); len(got) != 1 || got[0] != w.signer() {
		t.Errorf("rotation with dropOld: the root lists %v, want only the new key", got)
	}
}

func TestRotateRootReplacesTheOnlyRootKey(t *testing.T) {
	w := newWorld(t, InitOptions{}, "secret")
	old := w.RootKeyFiles()
	before := w.root()
	w.change(old, func(c *Change) error { return c.RotateRoot("") })
	after := w.root()
	if _, err := before.Next(after.Raw); err != nil {
		t.Fatal(err)
	}
	wasRoot, _ := before.Signers()
	isRoot, _ := after.Signers()
	if slices.Equal(wasRoot, isRoot) || len(isRoot) != 1 {
		t.Errorf("got root keys %v, want one key other than %v", isRoot, wasRoot)
	}
	c, err := w.Change(until)
	w.must(err)
	if made, err := c.Finish(old); err != nil || !strings.Contains(made[0].File, "draft") {
		t.Errorf("signed with the old root key: got %v, %v, want a draft", made, err)
	}
	w.change([]string{w.path("root-v2.key")}, func(*Change) error { return nil })
	if got := w.root().Version; got != 3 {
		t.Errorf("got root version %d, want 3", got)
	}
	w.Passphrase = []byte("wrong")
	if _, err := w.Folder.signer(old[0]); err == nil {
		t.Error("an encrypted root key was decrypted with the wrong passphrase")
	}
	w.Passphrase = nil
	if _, err := w.Folder.signer(old[0]); err == nil || !strings.Contains(err.Error(), "--passphrase-file") {
		t.Errorf("rotation without a passphrase: got error %v", err)
	}
}

func TestRootTakesEffectWithEnoughSignatures(t *testing.T) {
	w := newWorld(t, InitOptions{RootKeys: 3, Threshold: 2, Epoch: 1, Fleet: "ships"}, "")
	one := w.signer()
	made := w.change([]string{w.path("root-2.key")}, rotatePublisher(t.Context(), false))
	draft := w.path(draftName(2))
	if !slices.ContainsFunc(made,
		func(m WrittenFile) bool {
			return m.File == draft && strings.Contains(m.What, "1 of at least 2 signatures")
		}) || w.root().Version != 1 || w.signer() != one {
		t.Fatalf("one of two signatures: got %v, want a draft", made)
	}
	if made, err := w.Sign(draft, []string{w.path("root-2.key")}); err != nil || w.root().Version != 1 {
		t.Fatalf("repeated signature: got %v, %v, want a draft", made, err)
	}
	_, err := w.Sign(draft, []string{w.path("root-3.key")})
	w.must(err)
	if root := w.root(); root.Version != 2 || root.Fleet != "ships" || w.signer() == one {
		t.Errorf("got root version %d of fleet %q, want version 2 of fleet ships", root.Version, root.Fleet)
	}
	if _, err := os.Stat(draft); err == nil {
		t.Error("the draft still exists")
	}
}

func TestNextRootContainsChanges(t *testing.T) {
	w := newWorld(t, InitOptions{}, "")
	only := w.signer()
	c, err := w.Change(until)
	w.must(err)
	if err := c.Revoke(only); err == nil || !strings.Contains(err.Error(), "keys rotate publisher") {
		t.Errorf("revoke the only publisher key: got %v, want an error", err)
	}
	w.change(w.RootKeyFiles(), rotatePublisher(t.Context(), false))
	public := filepath.Join(t.TempDir(), "release.pem")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	w.must(err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	w.must(err)
	w.must(os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	w.change(w.RootKeyFiles(), func(c *Change) error {
		w.must(c.Floor("kyma-project.io/module/keda", "1.2.0"))
		c.Epoch()
		w.must(c.Release("kyma-project.io/", public, 1))
		return c.Revoke(only)
	})
	root := w.root()
	if root.TrustsKey(only) || !root.IsRevoked(only) || root.Epoch != 2 ||
		root.Floors["kyma-project.io/module/keda"] != "1.2.0" ||
		!slices.Equal(root.Releases(), []string{"kyma-project.io/"}) {
		t.Errorf("got root %+v, want epoch 2, a floor and a release key", root)
	}
	w.change(w.RootKeyFiles(), func(c *Change) error { return c.Floor("kyma-project.io/module/keda", "") })
	if root := w.root(); len(root.Floors) != 0 || !root.IsRevoked(only) {
		t.Errorf("next version: got root %+v, want no floors and the revoked key", root)
	}
}

func TestAnotherReleaseKeyKeepsTheThreshold(t *testing.T) {
	w := newWorld(t, InitOptions{}, "")
	for i, threshold := range []int{0, 2, 0} {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		w.must(err)
		der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		w.must(err)
		public := filepath.Join(t.TempDir(), "release.pem")
		w.must(os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
		w.change(w.RootKeyFiles(), func(c *Change) error { return c.Release("kyma-project.io/", public, threshold) })
		var root struct {
			Signed struct {
				Roles map[string]struct{ Threshold int }
			}
		}
		w.must(json.Unmarshal(w.root().Raw, &root))
		got := root.Signed.Roles[trust.RoleRelease+"kyma-project.io/"].Threshold
		if want := []int{1, 2, 2}[i]; got != want {
			t.Errorf("after key %d: got threshold %d, want %d", i+1, got, want)
		}
	}
}

func TestPublisherKeyCanBeInKMS(t *testing.T) {
	w := newWorld(t, InitOptions{}, "")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	ctx := context.WithValue(t.Context(), fake.KmsCtxKey{}, crypto.PrivateKey(key))
	c, err := w.Change(until)
	w.must(err)
	w.must(c.Rotate(ctx, trust.RolePublisher, fake.ReferenceScheme+"publisher", true))
	_, err = c.Finish(w.RootKeyFiles())
	w.must(err)
	want, err := trust.Thumbprint(&key.PublicKey)
	w.must(err)
	if got := w.root().Publishers(); !slices.Equal(got, []string{want}) {
		t.Errorf("got publisher keys %v, want the KMS key %s", got, want)
	}
	w.PublisherKey = fake.ReferenceScheme + "publisher"
	loaded, err := w.Load(ctx)
	w.must(err)
	documents, err := bundle.NewDocuments(bundle.DesiredState{}, bundle.Catalog{})
	w.must(err)
	now := time.Now().UTC()
	manifest, err := bundle.Compose(documents, bundle.Predicate{
		Audience: bundle.Audience{Runtime: "one"}, Epoch: 1, Sequence: 1, IssuedAt: now, ExpiresAt: now.Add(time.Hour),
		RootVersion: 2,
	}, loaded.Signer)
	w.must(err)
	if _, err := bundle.Verify(bundle.Fetched(manifest), bundle.Trust{Root: loaded.Root, Runtime: "one"},
		now); err != nil {
		t.Errorf("verify a bundle signed by the KMS: %v", err)
	}
	w.PublisherKey = "nokms://publisher"
	if _, err := w.Load(ctx); err == nil || !strings.Contains(err.Error(), "publisher key nokms://publisher") {
		t.Errorf("unknown KMS: got error %v", err)
	}
}

func TestRotateKeepsCurrentKMSKey(t *testing.T) {
	w := newWorld(t, InitOptions{}, "")
	kms := func() (context.Context, string) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		w.must(err)
		thumbprint, err := trust.Thumbprint(&key.PublicKey)
		w.must(err)
		return context.WithValue(t.Context(), fake.KmsCtxKey{}, crypto.PrivateKey(key)), thumbprint
	}
	reference := fake.ReferenceScheme + "publisher"
	firstKMS, first := kms()
	w.change(w.RootKeyFiles(), func(c *Change) error {
		return c.Rotate(firstKMS, trust.RolePublisher, reference, true)
	})
	// The folder still contains the replaced publisher.key, and the operator does not set --publisher-key.
	if role, err := w.SigningRole(t.Context(), first); err != nil || role != trust.RolePublisher {
		t.Errorf("KMS key: got role %q and error %v, want %s", role, err, trust.RolePublisher)
	}
	secondKMS, second := kms()
	w.change(w.RootKeyFiles(), func(c *Change) error {
		return c.Rotate(secondKMS, trust.RolePublisher, reference, false)
	})
	if root := w.root(); !root.TrustsKey(first) || !root.TrustsKey(second) || root.IsRevoked(first) {
		t.Errorf("got publisher keys %v, want %s and %s", root.Publishers(), first, second)
	}
	thirdKMS, _ := kms()
	c, err := w.Change(until)
	w.must(err)
	if err := c.Rotate(thirdKMS, trust.RolePublisher, reference, false); err == nil ||
		!strings.Contains(err.Error(), "--publisher-key") {
		t.Errorf("two listed keys, neither in the folder: got error %v", err)
	}
}

// During the overlap after the first rotation, the root of trust lists the key in the folder and the KMS key.
func TestRotateKeepsKMSKeyDuringOverlap(t *testing.T) {
	w := newWorld(t, InitOptions{}, "")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	current, err := trust.Thumbprint(&key.PublicKey)
	w.must(err)
	inKMS := context.WithValue(t.Context(), fake.KmsCtxKey{}, crypto.PrivateKey(key))
	w.change(w.RootKeyFiles(), func(c *Change) error {
		return c.Rotate(inKMS, trust.RolePublisher, fake.ReferenceScheme+"publisher", false)
	})
	if role, err := w.SigningRole(t.Context(), current); err != nil || role != trust.RolePublisher {
		t.Errorf("KMS key: got role %q and error %v, want %s", role, err, trust.RolePublisher)
	}
	c, err := w.Change(until)
	w.must(err)
	if err := c.Rotate(t.Context(), trust.RolePublisher, "", false); err == nil ||
		!strings.Contains(err.Error(), "--publisher-key") {
		t.Errorf("next rotation without the current key: got error %v", err)
	}
}

func TestSecondDraftDoesNotReplacePendingKey(t *testing.T) {
	w := newWorld(t, InitOptions{RootKeys: 2, Threshold: 2, Epoch: 1}, "")
	roots, _ := w.root().Signers()
	one := w.RootKeyFiles()[:1]
	for file, change := range map[string]func(*Change) error{
		FilePublisherKey + nextSuffix: rotatePublisher(t.Context(), true),
		"root-v2.key":                 func(c *Change) error { return c.RotateRoot(roots[1]) },
	} {
		w.change(one, change)
		draft := w.path(draftName(2))
		pending, err := os.ReadFile(w.path(file))
		w.must(err)
		c, err := w.Change(until)
		w.must(err)
		w.must(change(c))
		if _, err := c.Finish(one); err == nil || !strings.Contains(err.Error(), w.path(file)) ||
			!strings.Contains(err.Error(), draft) {
			t.Errorf("second draft with %s: got error %v, want both files", file, err)
		}
		if now, err := os.ReadFile(w.path(file)); err != nil || !slices.Equal(now, pending) {
			t.Errorf("second draft replaced %s (error %v)", file, err)
		}
		w.must(os.Remove(draft))
		w.change(one, change) // the operator deleted the draft, so the key is not needed
		w.must(os.Remove(draft))
	}
}

func TestTokenSecretsAreReadAgainAfterChange(t *testing.T) {
	w := newWorld(t, InitOptions{}, "")
	file, err := OpenTokenFile(w.Folder)
	w.must(err)
	first, err := file.Secrets()
	w.must(err)
	_, err = w.RotateToken(t.Context(), false)
	w.must(err)
	second, err := file.Secrets()
	w.must(err)
	if len(first) != 1 || len(second) != 2 || !slices.Equal(second[1], first[0]) || slices.Equal(second[0], first[0]) {
		t.Errorf("got %d secrets, then %d, want 1, then 2 with the first secret last", len(first), len(second))
	}
	for name, content := range map[string]string{
		"file with three secrets": "00\n00\n00\n", "empty file": "\n", "file with text": "secret\n",
	} {
		w.must(os.WriteFile(w.path(FileTokenKey), []byte(content), 0o600))
		if _, err := file.Secrets(); err == nil || !strings.Contains(err.Error(), FileTokenKey) {
			t.Errorf("%s: got %v, want an error about %s", name, err, FileTokenKey)
		}
	}
	w.must(os.Remove(w.path(FileTokenKey)))
	if _, err := file.Secrets(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: got %v, want ErrNotExist", err)
	}
	if _, err := w.RotateToken(t.Context(), false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file without --drop-old: got %v, want ErrNotExist", err)
	}
	_, err = w.RotateToken(t.Context(), true)
	w.must(err)
	if fresh, err := file.Secrets(); err != nil || len(fresh) != 1 {
		t.Errorf("missing file with --drop-old: got %d secrets, %v, want a new one", len(fresh), err)
	}
	if _, err := (Folder{Dir: t.TempDir()}).RotateToken(t.Context(), true); err == nil {
		t.Error("a folder without keys was accepted")
	}
}
