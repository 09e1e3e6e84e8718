package component

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/archive"
)

func TestArchivedBlobsMatchTheirComponents(t *testing.T) {
	shared := filepath.Dir(realworld)
	if _, err := os.Stat(shared); err != nil {
		t.Skip("shared/realworld is not next to this checkout")
	}
	for path, components := range map[string][]string{
		"ctf/keda-1.7.0":                          {"kyma-project.io/module/keda:1.7.0"},
		"ctf/keda-1.8.0":                          {"kyma-project.io/module/keda:1.8.0"},
		"ctf/template-operator-1.0.5":             {"kyma-project.io/module/template-operator:1.0.5"},
		"ctf/podinfo-6.14.1":                      {"kyma-project.io/module/podinfo:6.14.1"},
		"ctf/podinfo-6.14.1-signed":               {"kyma-project.io/module/podinfo:6.14.1"},
		"ocm-vectors/ctf_buildmeta_none_external": {"kyma-project.io/module/build:1.0.0+ci.42"},
		"ocm-vectors/ctf_signed_rsa15_and_plain_pss": {
			"kyma-project.io/module/base:1.0.0", "kyma-project.io/module/top:1.2.3",
		},
		"ocm-vectors/ctf_signed_rsa15_pem_chain": {
			"kyma-project.io/module/base:1.0.0", "kyma-project.io/module/top:1.2.3",
		},
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			opened, err := archive.Open(filepath.Join(shared, path))
			if err != nil {
				t.Fatal(err)
			}
			reader := NewReader(Options{Sources: []Source{opened}, Revalidate: time.Minute, RetryAfter: time.Minute})
			for _, name := range components {
				component, version, _ := strings.Cut(name, ":")
				c, err := reader.Component(t.Context(), component, version)
				if err != nil {
					t.Error(err)
					continue
				}
				for _, resource := range c.Descriptor.Resources {
					if resource.Access.Kind() != ocm.AccessLocalBlob {
						continue
					}
					data, err := reader.Bytes(t.Context(), c, resource)
					if err != nil || len(data) == 0 {
						t.Errorf("component %s, resource %s: got %d bytes and error %v",
							name, resource.Name, len(data), err)
					}
				}
			}
		})
	}
}
