package resolve

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// wireFields maps JSON field names to the features that the fields require.
var wireFields = map[string]bundle.Feature{
	"takeover": bundle.FeatureTakeover, "inherited": bundle.FeatureTakeover,
	"imagePullSecret": bundle.FeatureImagePullSecret,
	"namespaceLabels": bundle.FeatureNamespaceLabels, "nextRegistry": bundle.FeatureNextRegistry,
}

// refusedField returns the first field in the document that requires one of the features in lacks, or "".
func refusedField(document any, lacks []bundle.Feature) string {
	switch d := document.(type) {
	case []any:
		for _, item := range d {
			if found := refusedField(item, lacks); found != "" {
				return found
			}
		}
	case map[string]any:
		for key, value := range d {
			if f, is := wireFields[key]; is && slices.Contains(lacks, f) {
				return key
			}
			if found := refusedField(value, lacks); found != "" {
				return found
			}
		}
	}
	return ""
}

func annotated(annotation, value string) func(*v1beta2.ModuleTemplate) {
	return func(t *v1beta2.ModuleTemplate) { t.Annotations = map[string]string{annotation: value} }
}

// richWorld returns a world whose catalog has several modules that require features of the agent, and one module that
// does not.
func richWorld() *world {
	w := newWorld().template("keda", "1.0.0").
		template("keda", "2.0.0", annotated(v1beta2.AnnotationRequiresFeatures, "recreate")).
		meta("keda", "regular=1.0.0", "fast=2.0.0").
		template("serverless", "1.0.0").meta("serverless", "regular=1.0.0", "fast=1.0.0").
		template("nats", "1.0.0").meta("nats", "regular=1.0.0", "fast=1.0.0").ask("keda").ask("serverless").ask("nats")
	w.request.Settings = bundle.Settings{
		ImagePullSecret: "pull", NamespaceLabels: map[string]string{"istio-injection": "enabled"},
		NextRegistry: &bundle.NextRegistry{Location: "next.example/fleet"},
	}
	return w
}

func TestStateContainsOnlySupportedFeatures(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := richWorld()
		w.request.Requested.Channel = rapid.SampledFrom([]string{"regular", "fast"}).Draw(rt, "channel")
		if rapid.Bool().Draw(rt, "autonomy") {
			w.request.Settings.Autonomy = bundle.AutonomyCatalog
		}
		if rapid.Bool().Draw(rt, "takeover") {
			w.request.Takeover = bundle.TakeoverAdopt
			w.installed("nats", "1.0.0")
		}
		if rapid.Bool().Draw(rt, "before") {
			last := resolveDrawn(rt, w) // for an agent that supported all features before its downgrade
			w.request.LastState = &last.State
		}
		w.request.Unsupported = slices.DeleteFunc(bundle.AllFeatures(), func(bundle.Feature) bool {
			return rapid.Bool().Draw(rt, "has")
		})
		if w.request.CheckTakeover() != nil {
			return // nothing is published
		}
		w.request.Settings, _ = w.request.Settings.Without(func(f bundle.Feature) bool {
			return !slices.Contains(w.request.Unsupported, f)
		})
		result := resolveDrawn(rt, w)
		data, err := bundle.EncodeDesiredState(result.State)
		if err != nil {
			rt.Fatal(err)
		}
		var document any
		if err := json.Unmarshal(data, &document); err != nil {
			rt.Fatal(err)
		}
		if field := refusedField(document, w.request.Unsupported); field != "" {
			rt.Fatalf("an agent without features %v gets field %s: %s", w.request.Unsupported, field, data)
		}
		for _, f := range result.State.Features() {
			if slices.Contains(w.request.Unsupported, f) {
				rt.Fatalf("an agent without features %v must support %s", w.request.Unsupported, f)
			}
		}
		if !slices.Contains(result.RequestedNames, "keda") || !slices.Contains(result.RequestedNames, "serverless") {
			rt.Fatalf("modules with unsupported features would be removed: got asked modules %v", result.RequestedNames)
		}
	})
}

func TestModuleWithUnsupportedFeatureStaysUnchanged(t *testing.T) {
	w := richWorld()
	w.published(t)
	w.request.Requested.Channel, w.request.Unsupported = "fast", []bundle.Feature{bundle.FeatureRecreate}
	result := w.resolve(t)
	if m := lastManifest(&result.State, "keda"); m == nil || m.Version != "1.0.0" {
		t.Errorf("got keda manifest %+v, want version 1.0.0", m)
	}
	if len(result.State.Problems) != 1 ||
		!strings.Contains(result.State.Problems[0].Message, "module keda: the agent is too old for recreate") ||
		!slices.Equal(result.Unsupported, []bundle.Feature{bundle.FeatureRecreate}) {
		t.Errorf("got problems %+v and unsupported features %v, want one about recreate", result.State.Problems,
			result.Unsupported)
	}
	w.request.LastState, w.request.Versions = nil, nil
	if result = w.resolve(t); lastManifest(&result.State, "keda") != nil || lastManifest(&result.State, "nats") == nil {
		t.Errorf("module that was never installed: got %v, want only nats", outline(result))
	}
	w.request.Unsupported = nil
	if result = w.resolve(t); lastManifest(&result.State, "keda") == nil || len(result.Unsupported) > 0 {
		t.Errorf("agent with all features: got %v and unsupported features %v, want keda", outline(result),
			result.Unsupported)
	}
	result = newWorld().template("keda", "1.0.0", annotated(v1beta2.AnnotationRequiresFeatures, "teleport")).
		meta("keda", "regular=1.0.0").ask("keda").resolve(t)
	if len(result.State.Problems) != 1 ||
		!strings.Contains(result.State.Problems[0].Message, `this publisher does not know feature "teleport"`) {
		t.Errorf("unknown feature: got problems %+v", result.State.Problems)
	}
}
