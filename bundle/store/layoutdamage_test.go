package store

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

// TestWhatCannotBeReadIsNotMissing: a publisher takes a runtime of which nothing is found for one that is new.
func TestWhatCannotBeReadIsNotMissing(t *testing.T) {
	hex := digest.FromString("bundle").Encoded()
	for name, damage := range map[string]func(layoutRepository) error{
		"a digest of no algorithm": func(r layoutRepository) error {
			return os.WriteFile(r.index.path(), []byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",
				"digest":"sha256*`+hex+`","size":7,"annotations":{"org.opencontainers.image.ref.name":"runtimes/berlin:desired"}}]}`), 0o600)
		},
		"a file that leads round in a circle": func(r layoutRepository) error {
			path := r.blob(manifestBlob(`{"n":1}`).Descriptor)
			return errors.Join(os.Remove(path), os.Symlink(path, path))
		},
	} {
		dir := t.TempDir()
		before, err := openLayout(newLayoutIndex(dir), "runtimes/berlin")
		if err != nil {
			t.Fatal(err)
		}
		if err := PushManifest(t.Context(), before, manifestBlob(`{"n":1}`), "desired"); err != nil {
			t.Fatal(err)
		}
		if err := damage(before); err != nil {
			t.Fatal(err)
		}
		after, err := openLayout(newLayoutIndex(dir), "runtimes/berlin")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := after.Resolve(t.Context(), "desired"); err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "as runtimes/berlin:desired") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
