package resolve

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/window"
)

func TestChartManifestContainsValuesAndImages(t *testing.T) {
	values := part("config", v1beta2.OCIRef, "application/octet-stream", "replicas: 2")
	w := usualWorld().whole("keda", "1.0.0", Content{
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
		t.Errorf("got install %s from %+v", m.Spec.Install.Name, source)
	}
	if c := m.Spec.Config; c == nil || c.Name != "config" || c.Ref != m.Content[1].Digest.String() ||
		c.Repo != m.Content[1].Repository {
		t.Errorf("got config %+v, content %+v", m.Spec.Config, m.Content)
	}
	if !slices.Equal(m.Spec.LocalizedImages, []string{"registry.example/keda:1.0.0"}) {
		t.Errorf("got images %v, want registry.example/keda:1.0.0", m.Spec.LocalizedImages)
	}
}

func TestChangedChartValuesOfTheSameVersionAreRefused(t *testing.T) {
	chart := part("podinfo", v1beta2.HelmChart, "", "chart")
	first, second := part("config", v1beta2.OCIRef, "", "replicas: 1"),
		part("config", v1beta2.OCIRef, "", "replicas: 2")
	w := usualWorld().whole("keda", "1.0.0", Content{Install: chart, Values: &first}).published(t)
	w.whole("keda", "1.0.0", Content{Install: chart, Values: &second})
	state := w.resolve(t).State
	if len(state.Problems) != 1 ||
		!strings.Contains(state.Problems[0].Message, "changed its content under the same version") {
		t.Errorf("got problems %v, want one about the changed content", state.Problems)
	}
	if got := state.Manifests[0].Content[1].Digest; got != first.Digest {
		t.Errorf("got values %s, want the values that were published first", got)
	}
}

func TestInlineDescriptorIsUsed(t *testing.T) {
	w := newWorld().template("keda", "1.0.0", described("keda", "1.0.0")).meta("keda", "regular=1.0.0").ask("keda")
	needs := ListNeeds(w.request, w.snapshot(t))
	if len(needs) != 1 || needs[0].Descriptor == nil || needs[0].Template != "kcp-system/keda-1.0.0" ||
		needs[0].Descriptor.Name != prefix+"keda" {
		t.Errorf("got needs %+v, want the descriptor of ModuleTemplate kcp-system/keda-1.0.0", needs)
	}
}

func TestInlineDescriptorForAnotherComponentIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ descriptor, want string }{
		"descriptor for a different version": {
			string(descriptor("keda", "2.0.0")), "spec.descriptor: version is 2.0.0, but spec.version is 1.0.0",
		},
		"descriptor for a different component": {
			string(descriptor("mail", "1.0.0")), "spec.descriptor has component name " + prefix +
				"mail, must be " + prefix + "keda",
		},
		"invalid descriptor": {
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
				t.Errorf("got problems %v, want %q", problems, c.want)
			}
		})
	}
}

func TestTemplateAndModuleSyncCanBeDisabled(t *testing.T) {
	w := usualWorld().template("quiet", "1.0.0", labelledTemplate(v1beta2.LabelSync, v1beta2.False))
	w.request.Seed = w.request.Requested
	if shown := names(w.resolve(t).Catalog.ModuleTemplates); shown != "keda-1.0.0 keda-1.1.0" {
		t.Errorf("template with disabled sync: got catalog %s, want only templates of keda", shown)
	}
	w.request.OmitsSeedModules = true
	result := w.resolve(t)
	if len(result.State.Kyma.Spec.Modules) != 0 || len(result.State.Manifests) != 1 {
		t.Errorf("without module copy: got seed %v, manifests %v", result.State.Kyma.Spec.Modules,
			result.State.Manifests)
	}
	w.request.OmitsCatalog = true
	if shown := w.resolve(t).Catalog; len(shown.ModuleTemplates)+len(shown.ModuleReleaseMetas) != 0 {
		t.Errorf("without a catalog: got %v, want no entries", shown)
	}
}

func TestModuleBeingRemovedKeepsItsChannel(t *testing.T) {
	w := usualWorld().template("nats", "2.0.0").meta("nats", "regular=2.0.0")
	w.request.RemovedModules = []v1beta2.Module{
		{Name: "nats", Channel: "regular"}, {Name: "keda", Channel: "fast"}, {Name: "gone", Channel: "regular"},
	}
	result := w.resolve(t)
	if len(result.State.Leaving) != 1 || result.State.Leaving[0].Version != "2.0.0" ||
		!slices.Equal(result.RequestedNames, []string{"keda"}) || len(result.State.Problems) != 0 {
		t.Errorf("got leaving modules %v, asked %v, problems %v, want nats 2.0.0 leaving", result.State.Leaving,
			result.RequestedNames, result.State.Problems)
	}
	if needs := ListNeeds(w.request, w.snapshot(t)); len(needs) != 3 {
		t.Errorf("got needs %v, want three", needs)
	}
	w.request.IsDeleting = true
	if result := w.resolve(t); len(result.State.Manifests)+len(result.RequestedNames)+
		len(result.Catalog.ModuleTemplates) != 0 {
		t.Errorf("deleted Kyma: got asked modules %v and catalog %v, want none", result.RequestedNames, result.Catalog)
	}
}

func TestControlPlaneModulesAreNotPublishedToRuntimes(t *testing.T) {
	w := newWorld().template("board", "1.0.0", func(t *v1beta2.ModuleTemplate) {
		t.Annotations = map[string]string{v1beta2.AnnotationTarget: v1beta2.TargetControlPlane}
	}).meta("board", "regular=1.0.0").ask("board")
	state := w.resolve(t).State
	if len(state.Manifests) != 0 || len(state.Problems) != 1 ||
		!strings.Contains(state.Problems[0].Message, "ModuleTemplate board-1.0.0 can only be installed") {
		t.Errorf("got manifests %v, problems %v", state.Manifests, state.Problems)
	}
	w.request.IsControlPlane = true
	if state := w.resolve(t).State; len(state.Manifests) != 1 || len(state.Problems) != 0 {
		t.Errorf("in the control plane's cluster: got manifests %v, problems %v", state.Manifests, state.Problems)
	}
}

func TestDowntimeRequirementComesFromModuleTemplate(t *testing.T) {
	downtime := func(t *v1beta2.ModuleTemplate) { t.Spec.RequiresDowntime = true }
	schedule := &window.Schedule{
		Windows: []window.Window{{Days: []string{"Sat"}, Begin: "21:00:00Z", End: "00:00:00Z"}},
	}
	for name, c := range map[string]struct {
		world *world
		want  bool
	}{
		"template requires downtime": {
			newWorld().template("keda", "1.0.0", downtime).meta("keda", "regular=1.0.0").ask("keda"), true,
		},
		"template does not require downtime": {usualWorld(), false},
		"module that its ModuleReleaseMeta makes mandatory": {
			newWorld().template("keda", "1.0.0", downtime).meta("keda").edit(mandatoryMeta("1.0.0")), false,
		},
		"module that its ModuleTemplate makes mandatory": {
			newWorld().template("keda", "1.0.0", downtime, mandatory, described("keda", "1.0.0")), false,
		},
		"last manifest of an unresolved module": {
			newWorld().template("keda", "1.0.0", downtime).meta("keda", "regular=1.0.0").ask("keda").published(t).
				meta("keda"), true,
		},
		"pinned module": {
			newWorld().template("keda", "1.0.0", downtime).meta("keda", "regular=1.0.0").ask("keda", pinned("1.0.0")),
			true,
		},
		"module without a ModuleReleaseMeta": {
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
				t.Errorf("got schedule %+v, want %+v", state.Maintenance, schedule)
			}
		})
	}
	w := usualWorld()
	w.request.Maintenance, w.request.IsDeleting = schedule, true
	if state := w.resolve(t).State; state.Maintenance != nil {
		t.Errorf("the bundle of a deleted Kyma has a schedule: %+v", state.Maintenance)
	}
}
