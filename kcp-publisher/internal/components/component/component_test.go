package component

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/archive"
)

const realworld = "../../../../../shared/realworld/ctf"

func TestComponentsFromTheOfficialCLIAreRead(t *testing.T) {
	if _, err := os.Stat(realworld); err != nil {
		t.Skip("shared/realworld is not next to this checkout")
	}
	for dir, name := range map[string]string{
		"keda-1.7.0":              "kyma-project.io/module/keda:1.7.0",
		"keda-1.8.0":              "kyma-project.io/module/keda:1.8.0",
		"template-operator-1.0.5": "kyma-project.io/module/template-operator:1.0.5",
	} {
		t.Run(dir, func(t *testing.T) {
			folder, err := archive.Open(filepath.Join(realworld, dir))
			if err != nil {
				t.Fatal(err)
			}
			component, version, _ := strings.Cut(name, ":")
			reader := NewReader(Options{Sources: []Source{folder}, Revalidate: time.Minute, RetryAfter: time.Minute})
			c, err := reader.Component(t.Context(), component, version)
			if err != nil {
				t.Fatal(err)
			}
			raw, ok := c.Descriptor.Resource("raw-manifest")
			if !ok {
				t.Fatal("the component has no raw-manifest")
			}
			registries, _ := store.NewRegistries(store.Access{})
			place, err := store.Open(store.LayoutScheme+t.TempDir(), registries)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second copy already exists
				blob, err := reader.Content(t.Context(), c, raw, place)
				if err != nil || blob.Repository != "./component-descriptors/"+component || blob.SizeBytes == 0 ||
					blob.MediaType != "application/x-tar" {
					t.Errorf("got raw-manifest %+v and error %v, want a copied tar", blob, err)
				}
			}
			if _, err := reader.Component(t.Context(), component, "9.9.9"); !errors.Is(err, ErrMissing) {
				t.Errorf("missing version: got %v, want ErrMissing", err)
			}
		})
	}
}
