package resolve

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// regional returns a world with two modules: the default CR of keda uses runtime values, and nats does not use any.
func regional(used, text string) *world {
	return newWorld().template("keda", "1.0.0", annotated(v1beta2.AnnotationUsesValues, used),
		func(t *v1beta2.ModuleTemplate) {
			t.Spec.Data = &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.org/v1", "kind": "Keda", "metadata": map[string]any{"name": "default"},
				"spec": map[string]any{"region": text},
			}}
		}).meta("keda", "regular=1.0.0").template("nats", "1.0.0").meta("nats", "regular=1.0.0").ask("keda").ask("nats")
}

func (w *world) with(values bundle.Values, t testing.TB) *world {
	w.request.Values = values
	w.request.DefinedValues, w.request.InvalidValues = w.snapshot(t).DefinedValues(values)
	return w
}

const region = "${kyma-pull.dev/values.region}"

func TestRuntimesWithDifferentValuesShareTheirDocuments(t *testing.T) {
	var first []byte
	for _, values := range []bundle.Values{{"region": "eu"}, {"region": "us", "unused": "x",
		"labels.example.org/a": "b"}} {
		result := regional("region", region).with(values, t).resolve(t)
		if len(result.State.Problems) > 0 || len(result.State.Manifests) != 2 {
			t.Fatalf("values %v: got problems %+v", values, result.State.Problems)
		}
		encoded, err := bundle.EncodeDesiredState(result.State)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = encoded
		}
		if !bytes.Equal(first, encoded) {
			t.Errorf("values %v: got another document", values)
		}
	}
}

func TestUndefinedValueBlocksOnlyItsModule(t *testing.T) {
	w := regional("region,labels.example.org/tier", region)
	result := w.with(bundle.Values{"region": "eu"}, t).resolve(t)
	p := result.State.Problems
	if len(p) != 1 || p[0].Module != "keda" || p[0].Reason != reason.ValueUndefined ||
		p[0].State != v1beta2.StateError ||
		!strings.Contains(p[0].Message, "module keda: value labels.example.org/tier is not defined") {
		t.Errorf("got problems %+v, want one about the undefined value of keda", p)
	}
	if m := result.State.Manifests; len(m) != 1 || m[0].Module != "nats" || len(result.RequestedNames) != 2 {
		t.Errorf("got manifests %+v and asked modules %v, want nats and both modules", m, result.RequestedNames)
	}
	w.with(bundle.Values{"region": "eu", "labels.example.org/tier": ""}, t).published(t).with(nil, t)
	if m := w.resolve(t).State.Manifests; len(m) != 2 || m[0].Version != "1.0.0" {
		t.Errorf("a module whose value was removed lost its manifest: got %+v", m)
	}
}

func TestUndefinedValueDoesNotKeepAnUnsupportedManifest(t *testing.T) {
	w := newWorld().template("keda", "1.0.0", annotated(v1beta2.AnnotationRequiresFeatures, "recreate")).
		template("keda", "2.0.0", annotated(v1beta2.AnnotationUsesValues, "region")).
		meta("keda", "regular=1.0.0").ask("keda").published(t)
	w.edit(func(s *v1beta2.ModuleReleaseMetaSpec) { s.Channels[0].Version = "2.0.0" })
	w.request.Unsupported = []bundle.Feature{bundle.FeatureRecreate}
	state := w.resolve(t).State
	if len(state.Manifests) != 0 || len(state.Problems) != 1 || state.Problems[0].Reason != reason.ValueUndefined {
		t.Errorf("got manifests %+v and problems %+v, want no manifest and one problem", state.Manifests,
			state.Problems)
	}
}

func TestTemplateWithInvalidValuesIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ used, text, want string }{
		"invalid value name":       {"Region", "", "annotation kyma-pull.dev/uses-values: value name"},
		"value that is not listed": {"zone", region, "spec.data.spec: region: value \"region\""},
		"missing closing brace":    {"region", "${kyma-pull.dev/values.region", "no closing brace"},
	} {
		p := regional(c.used, c.text).with(bundle.Values{"region": "eu", "zone": "a"}, t).resolve(t).State.Problems
		if len(p) != 1 || p[0].Reason != reason.CatalogInvalid || !strings.Contains(p[0].Message, c.want) {
			t.Errorf("%s: got problems %+v, want one with %q", name, p, c.want)
		}
	}
}

func TestAgentWithoutSupportForValuesKeepsTheLastManifest(t *testing.T) {
	w := regional("region", region).with(bundle.Values{"region": "eu"}, t)
	w.request.Unsupported = []bundle.Feature{bundle.FeatureValues}
	result := w.resolve(t)
	if p := result.State.Problems; len(p) != 1 || p[0].Reason != reason.AgentOutdated ||
		len(result.State.CriticalFeatures()) != 0 {
		t.Errorf("got problems %+v and critical features %v, want one problem and no features", p,
			result.State.CriticalFeatures())
	}
}

func TestModuleWithUndefinedValueIsNotOffered(t *testing.T) {
	w := regional("region", region).with(nil, t)
	w.request.Settings.Autonomy = bundle.AutonomyCatalog
	for _, o := range w.resolve(t).State.Offers {
		if o.Module == "keda" {
			t.Errorf("module with an undefined value: got offer %+v", o)
		}
	}
	if len(w.with(bundle.Values{"region": "eu"}, t).resolve(t).State.Offers) != 2 {
		t.Error("the module is not offered although its value is defined")
	}
}

func TestValueWithAWrongTypeBlocksOnlyItsModule(t *testing.T) {
	w := regional("size:int", "${kyma-pull.dev/values.size:int}").with(bundle.Values{"size": "two"}, t)
	result := w.resolve(t)
	p := result.State.Problems
	if len(p) != 1 || p[0].Module != "keda" || p[0].Reason != reason.ValueInvalid ||
		!strings.Contains(p[0].Message, "value size must be an integer, such as 3 (default CR: spec.region)") {
		t.Errorf("got problems %+v, want one about the value of keda", p)
	}
	if m := result.State.Manifests; len(m) != 1 || m[0].Module != "nats" {
		t.Errorf("got manifests %+v, want nats", m)
	}
	w.with(bundle.Values{"size": "2"}, t).published(t).with(bundle.Values{"size": "two"}, t)
	if state := w.resolve(t).State; len(state.Manifests) != 2 || len(state.Problems) != 1 {
		t.Errorf("invalid value of an installed module: got manifests %+v and problems %+v, want both modules and one "+
			"problem", state.Manifests, state.Problems)
	}
	for name, used := range map[string]string{"reference with another type": "size", "unknown type": "size:float"} {
		p := regional(used, "${kyma-pull.dev/values.size:int}").with(bundle.Values{"size": "2"}, t).resolve(t).State.Problems
		if len(p) != 1 || p[0].Reason != reason.CatalogInvalid {
			t.Errorf("%s: got problems %+v, want one about the ModuleTemplate", name, p)
		}
	}
}

func TestAgentWithoutValueTypesKeepsTheLastManifest(t *testing.T) {
	w := regional("size:int", "${kyma-pull.dev/values.size:int}").with(bundle.Values{"size": "2"}, t)
	w.request.Unsupported = []bundle.Feature{bundle.FeatureValueTypes}
	result := w.resolve(t)
	if p := result.State.Problems; len(p) != 1 || p[0].Reason != reason.AgentOutdated ||
		!strings.Contains(p[0].Message, "value-types") || len(result.State.CriticalFeatures()) != 0 {
		t.Errorf("got problems %+v and critical features %v, want one problem and no features", p,
			result.State.CriticalFeatures())
	}
}
