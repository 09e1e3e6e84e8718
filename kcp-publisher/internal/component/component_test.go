package component

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const realworld = "../../../../shared/realworld/ctf"

func TestComponentsOfTheOfficialCLIAreRead(t *testing.T) {
	if _, err := os.Stat(realworld); err != nil {
		t.Skip("shared/realworld is not beside this checkout")
	}
	for dir, name := range map[string]string{
		"keda-1.7.0":              "kyma-project.io/module/keda:1.7.0",
		"keda-1.8.0":              "kyma-project.io/module/keda:1.8.0",
		"template-operator-1.0.5": "kyma-project.io/module/template-operator:1.0.5",
	} {
		t.Run(dir, func(t *testing.T) {
			folder, err := OpenFolder(filepath.Join(realworld, dir))
			if err != nil {
				t.Fatal(err)
			}
			component, version, _ := strings.Cut(name, ":")
			reader := NewReader([]Source{folder}, time.Minute, time.Minute)
			c, err := reader.Component(t.Context(), component, version)
			if err != nil {
				t.Fatal(err)
			}
			if blob := c.Blobs["raw-manifest"]; blob.Size == 0 || blob.MediaType != "application/x-tar" {
				t.Errorf("raw-manifest is %+v", blob)
			}
			registries, _ := bundle.NewRegistries(bundle.Access{})
			place, err := bundle.NewPlace(bundle.LayoutScheme+t.TempDir(), registries)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time it is there already
				copied, err := c.CopyTo(t.Context(), place)
				if err != nil || copied != "./component-descriptors/"+component {
					t.Errorf("copied to %q: %v", copied, err)
				}
			}
			if _, err := reader.Component(t.Context(), component, "9.9.9"); !errors.Is(err, ErrMissing) {
				t.Errorf("a missing version: %v", err)
			}
		})
	}
}

func TestAHostileIndexIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"not JSON":           {"{", "unexpected end"},
		"another schema":     {`{"schemaVersion":2}`, "schemaVersion: 2"},
		"a digest as a path": {`{"schemaVersion":1,"artifacts":[{"repository":"r","tag":"1","digest":"../../etc/passwd"}]}`, "artifacts[0].digest"},
	} {
		if _, err := decodeIndex([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":1,"artifacts":[{"repository":"r","tag":"1","digest":"sha256:00"}]}`))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = decodeIndex(data) })
}
