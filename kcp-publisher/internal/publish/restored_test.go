package publish

import (
	"slices"
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

// scalerFleet is a fleet with a control plane that offers two versions of module scaler.
type scalerFleet struct {
	*fleet
	source    *breakable
	templates []v1beta2.ModuleTemplate
}

func newScalerFleet(t *testing.T) *scalerFleet {
	t.Helper()
	f := &scalerFleet{fleet: newFleet(t), source: &breakable{components: components{store.NewMemory()}}}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		f.source.add(t, scalerComponent, version, "kind: ConfigMap\n")
		f.templates = append(f.templates, v1beta2.ModuleTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "scaler-" + version},
			Spec:       v1beta2.ModuleTemplateSpec{ModuleName: "scaler", Version: version},
		})
	}
	return f
}

const scalerComponent = "example.com/scaler"

func (f *scalerFleet) started() *Publisher {
	p := f.fleet.started()
	p.Components = component.NewReader(component.Options{Sources: []component.Source{f.source}})
	return p
}

// publish sets both channels to the given version of scaler and publishes to the runtime. spec is the runtime's
// request.
func (f *scalerFleet) publish(
	p *Publisher, runtime plan.Runtime, version string, recorded *plan.RecordedBundle, spec v1beta2.KymaSpec,
) Outcome {
	f.t.Helper()
	snapshot, err := catalog.New(f.templates, []v1beta2.ModuleReleaseMeta{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "scaler"},
		Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "scaler", OcmComponentName: scalerComponent,
			Channels: []v1beta2.ChannelVersion{
				{Channel: "regular", Version: version}, {Channel: "fast", Version: version},
			}},
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	request := resolve.Request{Seed: spec, Requested: spec}
	if runtime.RecordedBundle = recorded; recorded != nil {
		request.Versions = recorded.Versions
	}
	outcome, err := p.Publish(f.t.Context(), f.record(p, runtime.ID),
		Input{Runtime: runtime, Request: request, Catalog: snapshot})
	if err != nil {
		f.t.Fatal(err)
	}
	f.now = f.now.Add(time.Minute)
	return outcome
}

func scalerIn(channel string) v1beta2.KymaSpec {
	return v1beta2.KymaSpec{Channel: channel, Modules: []v1beta2.Module{{Name: "scaler", Managed: true}}}
}

// The runtime's report does not contain the module's version, for example because the module's Manifests were just
// deleted. Only the bundle in the registry contains the newer version.
func TestRestoredControlPlaneDoesNotDowngradeModules(t *testing.T) {
	f, runtime := newScalerFleet(t), runtimeNamed("one")
	p := f.started()
	backup := after(f.publish(p, runtime, "1.0.0", nil, scalerIn("regular")).Published)
	upgraded := f.publish(p, runtime, "1.1.0", backup, scalerIn("regular"))
	newest := f.publish(p, runtime, "1.1.0", after(upgraded.Published), scalerIn("fast"))
	if !newest.IsPushed || newest.Published.Versions["scaler"] != "1.1.0" {
		t.Fatalf("before the restore: got %+v, want another bundle with version 1.1.0", newest)
	}
	restored := f.publish(f.started(), runtime, "1.0.0", backup, scalerIn("regular"))
	if got := restored.Published.Versions["scaler"]; !restored.IsPushed || got != "1.1.0" {
		t.Errorf("after the restore: got version %s, pushed %t, want version 1.1.0", got, restored.IsPushed)
	}
	if len(restored.Problems) != 1 || restored.Problems[0].Reason != reason.OlderVersionAsked {
		t.Errorf("after the restore: got problems %+v, want reason %s", restored.Problems, reason.OlderVersionAsked)
	}
}

// An operator restores the control plane from a backup after the runtime's admin added or removed a module. The
// runtime's restarted agent is not confirmed yet, so the publisher uses the request in the backup.
func TestOutdatedRequestChangesNoModulesUntilItIsVerified(t *testing.T) {
	none, scaler := v1beta2.KymaSpec{Channel: "regular"}, scalerIn("regular")
	for name, c := range map[string]struct {
		backup, newest v1beta2.KymaSpec
		modules        int
	}{
		"module added after the backup": {none, scaler, 1}, "module removed after the backup": {scaler, none, 0},
	} {
		f, runtime := newScalerFleet(t), runtimeNamed("one")
		publish := func(p *Publisher, last *plan.RecordedBundle, generation int64, spec v1beta2.KymaSpec, verified bool,
		) plan.PublishedBundle {
			t.Helper()
			next := runtime
			next.IsInUse, next.Request, next.KymaGeneration, next.IsRequestVerified = true, &spec, generation, verified
			return f.publish(p, next, "1.0.0", last, spec).Published
		}
		p := f.started()
		backup := after(publish(p, nil, 1, c.backup, true))
		newest := publish(p, backup, 2, c.newest, true)
		p = f.started()
		last := backup
		for range 3 {
			kept := publish(p, last, 1, c.backup, false)
			if !slices.Equal(kept.Predicate.Removals, newest.Predicate.Removals) || len(kept.State.Manifests) != c.modules ||
				kept.Predicate.KymaGeneration != 2 {
				t.Fatalf("%s: got removals %q, %d modules and generation %d, want the newest bundle's: %q, %d, 2", name,
					kept.Predicate.Removals, len(kept.State.Manifests), kept.Predicate.KymaGeneration,
					newest.Predicate.Removals, c.modules)
			}
			last = after(kept)
		}
		if got := publish(p, last, 3, c.backup, true); len(got.State.Manifests) == c.modules {
			t.Errorf("%s: got %d modules after the request was verified, want a change", name, len(got.State.Manifests))
		}
	}
}
