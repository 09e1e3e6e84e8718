package resolve

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

func TestReleaseMustIncludeDefaultCRAndModuleName(t *testing.T) {
	cr := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sample.example/v1", "kind": "Keda", "metadata": map[string]any{"name": name},
		}}
	}
	released := &DefaultCR{
		Part: part(bundle.ContentDefaultCR, v1beta2.OCIRef, "application/yaml", "cr"), Object: cr("default"),
	}
	install := part("raw-manifest", v1beta2.OCIDir, "application/x-tar", "keda")
	withCR := func(name string) func(*v1beta2.ModuleTemplate) {
		return func(t *v1beta2.ModuleTemplate) { t.Spec.Data = cr(name) }
	}
	catalog := func(content Content, changes ...func(*v1beta2.ModuleTemplate)) *world {
		return newWorld().template("keda", "1.0.0", changes...).meta("keda", "regular=1.0.0").ask("keda").
			whole("keda", "1.0.0", content)
	}
	for name, c := range map[string]struct {
		world *world
		want  string
	}{
		"released default CR": {
			catalog(Content{Install: install, IsLocked: true, DefaultCR: released}, withCR("default")), "",
		},
		"module without a CR": {catalog(Content{Install: install, IsLocked: true}), ""},
		"no release keys":     {catalog(Content{Install: install}, withCR("other")), ""},
		"default CR that differs": {
			catalog(Content{Install: install, IsLocked: true, DefaultCR: released}, withCR("other")), "differs",
		},
		"component without a default CR": {
			catalog(Content{Install: install, IsLocked: true}, withCR("default")), "the release has no default CR",
		},
		"another module's component": {
			catalog(Content{Install: install, IsLocked: true}).edit(func(m *v1beta2.ModuleReleaseMetaSpec) {
				m.OcmComponentName = prefix + "nats"
			}).whole("nats", "1.0.0", Content{Install: install, IsLocked: true}), "cannot be module keda",
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := c.world.resolve(t).State
			if c.want == "" {
				if len(state.Manifests) != 1 || len(state.Problems) != 0 {
					t.Errorf("got %d manifests and problems %v, want one manifest", len(state.Manifests), state.Problems)
				}
				return
			}
			if len(state.Manifests) != 0 || len(state.Problems) != 1 || state.Problems[0].Reason != reason.CatalogInvalid ||
				!strings.Contains(state.Problems[0].Message, c.want) {
				t.Errorf("got %d manifests and problems %+v, want a problem with %q", len(state.Manifests),
					state.Problems, c.want)
			}
		})
	}
}

func TestReleasedDefaultCRIsTreatedAsUnchangedContent(t *testing.T) {
	install := bundle.Content{Name: "raw-manifest", Digest: "sha256:a"}
	before := &bundle.Manifest{Version: "1.0.0", Component: prefix + "keda", Content: []bundle.Content{install}}
	after := *before
	after.Content = []bundle.Content{install, {Name: bundle.ContentDefaultCR, Digest: "sha256:b"}}
	if isContentChanged(before, &after) || isContentChanged(&after, before) {
		t.Error("the released default CR counts as changed content")
	}
	after.Content[0].Digest = "sha256:c"
	if !isContentChanged(before, &after) {
		t.Error("changed content is accepted")
	}
}
