package check

import (
	"crypto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/internal/preflight"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

// newRoot returns version 1 of a fleet's root of trust.
func newRoot(t *testing.T) trust.Root {
	t.Helper()
	var signers [2]trust.Signer
	for i := range signers {
		key, err := trust.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		if signers[i], err = trust.LoadSigner(key); err != nil {
			t.Fatal(err)
		}
	}
	public, err := signers[1].PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	data, err := trusttest.NewRoot(signers[0], []crypto.PublicKey{public}, time.Now().AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	root, err := trust.ParseRoot(data)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestCheckRefusesAnotherFleetsLocation(t *testing.T) {
	place, err := store.Open(store.LayoutScheme+filepath.Join(t.TempDir(), "registry"), nil)
	if err != nil {
		t.Fatal(err)
	}
	documents, err := place.Repository(t.Context(), bundle.DocumentsRepository)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.PushBlob(t.Context(), documents, bundle.EmptyBlob()); err != nil {
		t.Fatal(err)
	}
	own := newRoot(t)
	if got := checkPublishedRoot(t.Context(), place, own); got.Result != preflight.Warning ||
		!strings.Contains(got.Advice, "--location") {
		t.Errorf("empty location: got %+v, want a warning that names --location", got)
	}
	if err := store.PushRoot(t.Context(), place, own); err != nil {
		t.Fatal(err)
	}
	if got := checkPublishedRoot(t.Context(), place, own); got.Result != preflight.Passed {
		t.Errorf("location of the fleet: got %+v, want Passed", got)
	}
	if got := checkPublishedRoot(t.Context(), place, newRoot(t)); got.Result != preflight.Failed ||
		!strings.Contains(got.Message, "another fleet") {
		t.Errorf("location of another fleet: got %+v, want Failed", got)
	}
}

func TestCheckWarnsAboutRootKeysInTheKeyFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{keys.FileRootKey, "root-2.key", keys.FilePublisherKey, keys.FileRoot} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var named []string
	for _, f := range rootKeys(keys.Folder{Dir: dir}) {
		named = append(named, strings.TrimPrefix(f.Check, "file "+dir+"/"))
	}
	slices.Sort(named)
	if want := []string{"root-2.key", "root.key"}; !slices.Equal(named, want) {
		t.Errorf("got root key files %v, want %v", named, want)
	}
	if parts := New().Flags().Lookup("rights").DefValue; parts != "[publisher,metrics]" {
		t.Errorf("got %s as default of --rights", parts)
	}
}
