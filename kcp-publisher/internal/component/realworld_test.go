package component

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

func TestEveryBlobOfEveryArchiveIsWhatItsComponentSays(t *testing.T) {
	shared := filepath.Dir(realworld)
	if _, err := os.Stat(shared); err != nil {
		t.Skip("shared/realworld is not beside this checkout")
	}
	for archive, components := range map[string][]string{
		"ctf/keda-1.7.0":                             {"kyma-project.io/module/keda:1.7.0"},
		"ctf/keda-1.8.0":                             {"kyma-project.io/module/keda:1.8.0"},
		"ctf/template-operator-1.0.5":                {"kyma-project.io/module/template-operator:1.0.5"},
		"ctf/podinfo-6.14.1":                         {"kyma-project.io/module/podinfo:6.14.1"},
		"ctf/podinfo-6.14.1-signed":                  {"kyma-project.io/module/podinfo:6.14.1"},
		"ocm-vectors/ctf_buildmeta_none_external":    {"kyma-project.io/module/build:1.0.0+ci.42"},
		"ocm-vectors/ctf_signed_rsa15_and_plain_pss": {"kyma-project.io/module/base:1.0.0", "kyma-project.io/module/top:1.2.3"},
		"ocm-vectors/ctf_signed_rsa15_pem_chain":     {"kyma-project.io/module/base:1.0.0", "kyma-project.io/module/top:1.2.3"},
	} {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			folder, err := OpenFolder(filepath.Join(shared, archive))
			if err != nil {
				t.Fatal(err)
			}
			if len(folder.index) != len(components) {
				t.Errorf("the index tags %d versions, want %d", len(folder.index), len(components))
			}
			reader := NewReader([]Source{folder}, time.Minute, time.Minute)
			for _, name := range components {
				component, version, _ := strings.Cut(name, ":")
				c, err := reader.Component(t.Context(), component, version)
				if err != nil {
					t.Error(err)
					continue
				}
				repository, err := folder.Open(component)
				if err != nil {
					t.Fatal(err)
				}
				for _, resource := range c.Descriptor.Resources {
					blob, ok := c.Blobs[resource.Name]
					_, unique := c.Descriptor.Resource(resource.Name) // in the vectors, two are called "dup"
					if ok != (unique && resource.Access.Kind() == ocm.AccessLocalBlob) {
						t.Errorf("%s: resource %s has access %s and a blob: %t", name, resource.Name, resource.Access.Type, ok)
					}
					if !ok {
						continue
					}
					if _, err := bundle.FetchBlob(t.Context(), repository, blob, bundle.MaxLayerBytes); err != nil {
						t.Errorf("%s: resource %s: %v", name, resource.Name, err)
					}
				}
			}
		})
	}
}
