package resolve

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/window"
)

func resource(name, kind, mediaType string) ocm.Resource {
	return ocm.Resource{
		Element: ocm.Element{Name: name, Version: "1.0.0"}, Type: kind, Relation: "local",
		Access: ocm.Access{Type: "localBlob", MediaType: mediaType},
	}
}

func TestOneResourceOfAComponentIsInstalled(t *testing.T) {
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
		"A folder is installed as such": {[]ocm.Resource{raw, image, values}, "raw-manifest oci-dir"},
		"A tar without a type is a folder too": {
			[]ocm.Resource{resource("raw-manifest", "blob", "application/x-tar")}, "raw-manifest oci-dir",
		},
		"One file is no folder": {
			[]ocm.Resource{resource("raw-manifest", "yaml", "application/yaml")}, "raw-manifest oci-ref",
		},
		"A chart is found by its type":        {[]ocm.Resource{image, chart}, "podinfo helm-chart"},
		"A chart comes with its values":       {[]ocm.Resource{chart, values}, "podinfo helm-chart config"},
		"A chart of a Helm repository is one": {[]ocm.Resource{fromRepository}, "podinfo helm-chart"},
		"An overlay is found by its type": {
			[]ocm.Resource{resource("overlay", "kustomize", "application/x-tar")}, "overlay kustomize",
		},
		"A raw manifest wins over a chart":  {[]ocm.Resource{chart, raw}, "raw-manifest oci-dir"},
		"A chart may be named raw-manifest": {[]ocm.Resource{other, named}, "raw-manifest helm-chart"},
		"Images alone are nothing to install": {
			[]ocm.Resource{image}, `component.resources: has nothing to install: want a resource "raw-manifest"`,
		},
		"Two charts do not say which is meant": {
			[]ocm.Resource{chart, other},
			`has several things to install (podinfo:1.0.0, other:1.0.0): name the one that is meant "raw-manifest"`,
		},
		"Two raw manifests do not say which is meant": {[]ocm.Resource{raw, raw}, "has several things to install"},
		"Two sets of values do not say which are meant": {
			[]ocm.Resource{chart, values, values}, `has 2 resources "config": keep one`,
		},
		"Checks come with a folder": {[]ocm.Resource{raw, shipped}, "raw-manifest oci-dir checks"},
		"Checks come with a chart and its values": {
			[]ocm.Resource{shipped, chart, values}, "podinfo helm-chart config checks",
		},
		"Two sets of checks do not say which are meant": {
			[]ocm.Resource{raw, shipped, shipped}, `has 2 resources "checks": keep one`,
		},
		"Values without a chart are left where they are": {[]ocm.Resource{raw, values, values}, "raw-manifest oci-dir"},
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

func TestChartHasItsValuesAndImages(t *testing.T) {
	values := part("config", v1beta2.OCIRef, "application/octet-stream", "replicas: 2")
	w := usual().whole("keda", "1.0.0", Content{
		Install: part("podinfo", v1beta2.HelmChart, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "chart"),
		Values:  &values,
		Images:  []string{"registry.example/keda:1.0.0"},
	})
	m := w.resolve(t).State.Manifests[0]
	var source v1beta2.ImageSpec
	if err := json.Unmarshal(m.Spec.Install.Source.Raw, &source); err != nil {
		t.Fatal(err)
	}
	if m.Spec.Install.Name != "podinfo" || source.Type != v1beta2.HelmChart ||
		source.Ref != m.Content[0].Digest.String() {
		t.Errorf("installs %s from %+v", m.Spec.Install.Name, source)
	}
	if c := m.Spec.Config; c == nil || c.Name != "config" || c.Ref != m.Content[1].Digest.String() ||
		c.Repo != m.Content[1].Repository {
		t.Errorf("config is %+v, content %+v", m.Spec.Config, m.Content)
	}
	if !slices.Equal(m.Spec.LocalizedImages, []string{"registry.example/keda:1.0.0"}) {
		t.Errorf("images are %v", m.Spec.LocalizedImages)
	}
}

func TestValuesThatChangeUnderTheSameVersionAreRefused(t *testing.T) {
	chart := part("podinfo", v1beta2.HelmChart, "", "chart")
	first, second := part("config", v1beta2.OCIRef, "", "replicas: 1"),
		part("config", v1beta2.OCIRef, "", "replicas: 2")
	w := usual().whole("keda", "1.0.0", Content{Install: chart, Values: &first}).published(t)
	w.whole("keda", "1.0.0", Content{Install: chart, Values: &second})
	state := w.resolve(t).State
	if len(state.Problems) != 1 ||
		!strings.Contains(state.Problems[0].Message, "changed its content under the same version") {
		t.Errorf("problems are %v", state.Problems)
	}
	if got := state.Manifests[0].Content[1].Digest; got != first.Digest {
		t.Errorf("the values are %s, want those published first", got)
	}
}

func TestInlineDescriptorIsUsed(t *testing.T) {
	w := newWorld().template("keda", "1.0.0", described("keda", "1.0.0")).meta("keda", "regular=1.0.0").ask("keda")
	needs := Needs(w.request, w.snapshot(t))
	if len(needs) != 1 || needs[0].Descriptor == nil || needs[0].Template != "kcp-system/keda-1.0.0" ||
		needs[0].Descriptor.Name != prefix+"keda" {
		t.Errorf("needs %+v", needs)
	}
}

func TestInlineDescriptorOfAnotherComponentIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ descriptor, want string }{
		"another version": {
			string(descriptor("keda", "2.0.0")), "spec.descriptor: version is 2.0.0, but spec.version is 1.0.0",
		},
		"another component": {
			string(descriptor("mail", "1.0.0")), "spec.descriptor: is of component " + prefix + "mail, want " + prefix +
				"keda",
		},
		"no descriptor": {
			`{"a":1}`, "ModuleTemplate kcp-system/keda-1.0.0 spec.descriptor: component descriptor: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().
				template("keda", "1.0.0",
					func(t *v1beta2.ModuleTemplate) {
						t.Spec.Descriptor.Raw = []byte(c.descriptor)
					}).meta("keda", "regular=1.0.0").ask("keda")
			problems := w.resolve(t).State.Problems
			if len(problems) != 1 || !strings.Contains(problems[0].Message, c.want) {
				t.Errorf("got %v, want %q", problems, c.want)
			}
		})
	}
}

func TestSyncCanBeSwitchedOff(t *testing.T) {
	w := usual().template("quiet", "1.0.0", labelledTemplate(v1beta2.LabelSync, v1beta2.False))
	w.request.Seed = w.request.Asked
	if shown := names(w.resolve(t).Catalog.ModuleTemplates); shown != "keda-1.0.0 keda-1.1.0" {
		t.Errorf("a template that no runtime shall see: %s", shown)
	}
	w.request.NoModuleCopy = true
	result := w.resolve(t)
	if len(result.State.Kyma.Spec.Modules) != 0 || len(result.State.Manifests) != 1 {
		t.Errorf("without a copy of the modules: seeded %v, installed %v", result.State.Kyma.Spec.Modules,
			result.State.Manifests)
	}
	w.request.NoCatalog = true
	if shown := w.resolve(t).Catalog; len(shown.ModuleTemplates)+len(shown.ModuleReleaseMetas) != 0 {
		t.Errorf("without a catalog: %v", shown)
	}
}

func TestLeavingModuleKeepsItsChannel(t *testing.T) {
	w := usual().template("nats", "2.0.0").meta("nats", "regular=2.0.0")
	w.request.Leaving = []v1beta2.Module{
		{Name: "nats", Channel: "regular"}, {Name: "keda", Channel: "fast"}, {Name: "gone", Channel: "regular"},
	}
	result := w.resolve(t)
	if len(result.State.Leaving) != 1 || result.State.Leaving[0].Version != "2.0.0" ||
		!slices.Equal(result.Asked, []string{"keda"}) || len(result.State.Problems) != 0 {
		t.Errorf("leaving %v, asked %v, problems %v", result.State.Leaving, result.Asked, result.State.Problems)
	}
	if needs := Needs(w.request, w.snapshot(t)); len(needs) != 3 {
		t.Errorf("needs %v", needs)
	}
	w.request.Deleting = true
	if result := w.resolve(t); len(result.State.Manifests)+len(result.Asked)+len(result.Catalog.ModuleTemplates) != 0 {
		t.Errorf("a deleted Kyma asks for %v and is shown %v", result.Asked, result.Catalog)
	}
}

func TestControlPlaneModulesAreNotPublishedToRuntimes(t *testing.T) {
	w := newWorld().template("board", "1.0.0", func(t *v1beta2.ModuleTemplate) {
		t.Annotations = map[string]string{v1beta2.AnnotationTarget: v1beta2.TargetControlPlane}
	}).meta("board", "regular=1.0.0").ask("board")
	state := w.resolve(t).State
	if len(state.Manifests) != 0 || len(state.Problems) != 1 ||
		!strings.Contains(state.Problems[0].Message, "ModuleTemplate board-1.0.0 is for the control plane") {
		t.Errorf("manifests %v, problems %v", state.Manifests, state.Problems)
	}
	w.request.ControlPlane = true
	if state := w.resolve(t).State; len(state.Manifests) != 1 || len(state.Problems) != 0 {
		t.Errorf("in its own cluster: manifests %v, problems %v", state.Manifests, state.Problems)
	}
}

func TestModuleRequiresDowntime(t *testing.T) {
	downtime := func(t *v1beta2.ModuleTemplate) { t.Spec.RequiresDowntime = true }
	schedule := &window.Schedule{
		Windows: []window.Window{{Days: []string{"Sat"}, Begin: "21:00:00Z", End: "00:00:00Z"}},
	}
	for name, c := range map[string]struct {
		world *world
		want  bool
	}{
		"one whose template requests it": {
			newWorld().template("keda", "1.0.0", downtime).meta("keda", "regular=1.0.0").ask("keda"), true,
		},
		"one whose template does not": {usual(), false},
		"a mandatory one, which does not wait": {
			newWorld().template("keda", "1.0.0", downtime).meta("keda").edit(mandatoryMeta("1.0.0")), false,
		},
		"a mandatory one by its template": {
			newWorld().template("keda", "1.0.0", downtime, mandatory, described("keda", "1.0.0")), false,
		},
		"the last one, when the next does not exist": {
			newWorld().template("keda", "1.0.0", downtime).meta("keda", "regular=1.0.0").ask("keda").published(t).
				meta("keda"), true,
		},
		"one that is pinned in the runtime's Kyma": {
			newWorld().template("keda", "1.0.0", downtime).meta("keda", "regular=1.0.0").ask("keda", pinned("1.0.0")),
			true,
		},
		"one of an older template, channel and label": {
			newWorld().older("old", "keda", "regular", "1.0.0", downtime).ask("kcp-system/old"), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.world.request.Maintenance = schedule
			state := c.world.resolve(t).State
			if len(state.Manifests) != 1 || state.Manifests[0].RequiresDowntime != c.want {
				t.Errorf("got %+v, problems %v, want %t", state.Manifests, state.Problems, c.want)
			}
			if state.Maintenance != schedule {
				t.Errorf("the schedule is %+v", state.Maintenance)
			}
		})
	}
	w := usual()
	w.request.Maintenance, w.request.Deleting = schedule, true
	if state := w.resolve(t).State; state.Maintenance != nil {
		t.Errorf("a bundle that removes everything has a schedule: %+v", state.Maintenance)
	}
}
