package publish

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// The runtime's report does not contain its module version, for example because its Manifests were just deleted. Only
// the bundle in the registry contains the newer version.
func TestRestoredControlPlaneDoesNotDowngradeModules(t *testing.T) {
	const name = "example.com/scaler"
	f, source, runtime := newFleet(t), &breakable{components: components{store.NewMemory()}}, runtimeNamed("one")
	var templates []v1beta2.ModuleTemplate
	for _, version := range []string{"1.0.0", "1.1.0"} {
		source.add(t, name, version, "kind: ConfigMap\n")
		templates = append(templates, v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "scaler-" + version},
			Spec:       v1beta2.ModuleTemplateSpec{ModuleName: "scaler", Version: version},
		})
	}
	started := func() *Publisher {
		p := f.started()
		p.Components = component.NewReader(component.Options{Sources: []component.Source{source}})
		return p
	}
	publish := func(p *Publisher, version string, remembered *plan.RecordedBundle, channel string) Outcome {
		t.Helper()
		snapshot, err := catalog.New(templates, []v1beta2.ModuleReleaseMeta{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "scaler"},
			Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "scaler", OcmComponentName: name,
				Channels: []v1beta2.ChannelVersion{
					{Channel: "regular", Version: version}, {Channel: "fast", Version: version},
				}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		spec := v1beta2.KymaSpec{Channel: channel, Modules: []v1beta2.Module{{Name: "scaler", Managed: true}}}
		request := resolve.Request{Seed: spec, Requested: spec}
		if runtime.RecordedBundle = remembered; remembered != nil {
			request.Versions = remembered.Versions
		}
		outcome, err := p.Publish(t.Context(), f.record(p, runtime.ID),
			Input{Runtime: runtime, Request: request, Catalog: snapshot})
		if err != nil {
			t.Fatal(err)
		}
		f.now = f.now.Add(time.Minute)
		return outcome
	}
	p := started()
	backup := after(publish(p, "1.0.0", nil, "regular").Published)
	upgraded := publish(p, "1.1.0", backup, "regular")
	newest := publish(p, "1.1.0", after(upgraded.Published), "fast")
	if !newest.IsPushed || newest.Published.Versions["scaler"] != "1.1.0" {
		t.Fatalf("before the restore: got %+v, want another bundle with version 1.1.0", newest)
	}
	restored := publish(started(), "1.0.0", backup, "regular")
	if got := restored.Published.Versions["scaler"]; !restored.IsPushed || got != "1.1.0" {
		t.Errorf("after the restore: got version %s, pushed %t, want version 1.1.0", got, restored.IsPushed)
	}
	if len(restored.Problems) != 1 || restored.Problems[0].Reason != reason.OlderVersionAsked {
		t.Errorf("after the restore: got problems %+v, want reason %s", restored.Problems, reason.OlderVersionAsked)
	}
}
