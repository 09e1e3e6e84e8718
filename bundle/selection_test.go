package bundle

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

func resource(name, kind, mediaType string) ocm.Resource {
	return ocm.Resource{
		Element: ocm.Element{Name: name, Version: "1.0.0"}, Type: kind, Relation: "local",
		Access: ocm.Access{Type: "localBlob", MediaType: mediaType},
	}
}

func TestResourcesToInstallAreSelected(t *testing.T) {
	raw, chart := resource("raw-manifest", "directoryTree", "application/x-tar"),
		resource("podinfo", "helmChart", "application/vnd.oci.image.manifest.v1+tar+gzip")
	values, image := resource("config", "yaml", "application/octet-stream"), resource("operator", "ociArtifact", "")
	shipped := resource("checks", "yaml", "application/yaml")
	other := chart
	other.Name = "other"
	named := chart
	named.Name = "raw-manifest"
	fromRepository := resource("podinfo", "chart", "")
	fromRepository.Access.Type = "helm/v1"
	for name, c := range map[string]struct {
		resources []ocm.Resource
		want      string // "name kind values", or a part of the error
	}{
		"Raw manifest of type directoryTree": {[]ocm.Resource{raw, image, values}, "raw-manifest oci-dir"},
		"Raw manifest as a tar": {
			[]ocm.Resource{resource("raw-manifest", "blob", "application/x-tar")}, "raw-manifest oci-dir",
		},
		"Raw manifest as a single file": {
			[]ocm.Resource{resource("raw-manifest", "yaml", "application/yaml")}, "raw-manifest oci-ref",
		},
		"Chart selected by its type": {[]ocm.Resource{image, chart}, "podinfo helm-chart"},
		"Chart with values":          {[]ocm.Resource{chart, values}, "podinfo helm-chart config"},
		"Chart of a Helm repository": {[]ocm.Resource{fromRepository}, "podinfo helm-chart"},
		"Overlay selected by its type": {
			[]ocm.Resource{resource("overlay", "kustomize", "application/x-tar")}, "overlay kustomize",
		},
		"Raw manifest overrides a chart": {[]ocm.Resource{chart, raw}, "raw-manifest oci-dir"},
		"Chart named raw-manifest":       {[]ocm.Resource{other, named}, "raw-manifest helm-chart"},
		"Component with only images": {
			[]ocm.Resource{image}, `component.resources: no resource to install: add a resource "raw-manifest"`,
		},
		"Two charts are ambiguous": {
			[]ocm.Resource{chart, other},
			`several resources to install (podinfo:1.0.0, other:1.0.0): rename the intended resource to "raw-manifest"`,
		},
		"Two raw manifests are ambiguous": {[]ocm.Resource{raw, raw}, "several resources to install"},
		"Two resources with values are ambiguous": {
			[]ocm.Resource{chart, values, values}, `2 resources are named "config": keep one`,
		},
		"Raw manifest with checks": {[]ocm.Resource{raw, shipped}, "raw-manifest oci-dir checks"},
		"Chart with values and checks": {
			[]ocm.Resource{shipped, chart, values}, "podinfo helm-chart config checks",
		},
		"Two resources with checks are ambiguous": {
			[]ocm.Resource{raw, shipped, shipped}, `2 resources are named "checks": keep one`,
		},
		"Values without a chart are ignored": {[]ocm.Resource{raw, values, values}, "raw-manifest oci-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Select(ocm.Descriptor{
				Name: "kyma-pull.dev/module/keda", Version: "1.0.0", Resources: c.resources,
			})
			if err != nil {
				if !strings.Contains(err.Error(), c.want) ||
					!strings.HasPrefix(err.Error(), "component kyma-pull.dev/module/keda:1.0.0: ") {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			text := got.Install.Name + " " + string(got.Type)
			for _, more := range got.Needed()[1:] {
				text += " " + more.Name
			}
			if text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}
