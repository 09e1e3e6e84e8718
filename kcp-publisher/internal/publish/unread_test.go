package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// breakable is a component source that returns err if it is set.
type breakable struct {
	components
	err error
}

func (b *breakable) Open(name string) (oras.ReadOnlyTarget, error) {
	if b.err != nil {
		return nil, b.err
	}
	return b.components.Open(name)
}

// newFragileFleet returns a fleet with a runtime that requests module scaler. publish publishes a bundle for it, and
// started returns a restarted publisher.
func newFragileFleet(t *testing.T) (
	f *fleet, source *breakable, publish func(*Publisher) Outcome, started func() *Publisher,
) {
	t.Helper()
	const name = "example.com/scaler"
	f, source = newFleet(t), &breakable{components: components{store.NewMemory()}}
	runtime := runtimeNamed("one")
	source.add(t, name, "1.0.0", "kind: ConfigMap\n")
	snapshot, err := catalog.New([]v1beta2.ModuleTemplate{{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kcp-system",
			Name:      "scaler-1.0.0",
		}, Spec: v1beta2.ModuleTemplateSpec{ModuleName: "scaler", Version: "1.0.0"},
	}}, []v1beta2.ModuleReleaseMeta{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "scaler"},
		Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "scaler", OcmComponentName: name,
			Channels: []v1beta2.ChannelVersion{{Channel: "regular", Version: "1.0.0"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	publish = func(p *Publisher) Outcome {
		t.Helper()
		spec := v1beta2.KymaSpec{Channel: "regular", Modules: []v1beta2.Module{{Name: "scaler", Managed: true}}}
		request := resolve.Request{Seed: spec, Requested: spec}
		if runtime.RecordedBundle != nil {
			request.Versions = runtime.RecordedBundle.Versions
		}
		outcome, err := p.Publish(t.Context(), f.record(p, runtime.ID),
			Input{Runtime: runtime, Request: request, Catalog: snapshot})
		if err != nil {
			t.Fatal(err)
		}
		runtime.RecordedBundle = after(outcome.Published)
		f.now = f.now.Add(time.Minute)
		return outcome
	}
	started = func() *Publisher {
		p := f.started()
		p.Components = component.NewReader(component.Options{Sources: []component.Source{source}})
		return p
	}
	return f, source, publish, started
}

// If a module cannot be read, the bundle must still be published, because it also delivers keys and revocations. The
// bundle must not remove the module.
func TestUnreadableModuleDoesNotBlockBundle(t *testing.T) {
	f, source, publish, started := newFragileFleet(t)
	if first := publish(started()); len(first.Published.State.Manifests) != 1 {
		t.Fatalf("first bundle: got %+v, want one Manifest", first)
	}
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	p := started()
	source.err = fmt.Errorf("store the digest: %w", &fs.PathError{
		Op: "write", Path: "partial/123", Err: syscall.ENOSPC,
	})
	poor := publish(p)
	if !poor.IsPushed || len(poor.Published.Predicate.Removals) != 0 || len(poor.Problems) != 1 ||
		poor.Published.Versions["scaler"] != "1.0.0" ||
		poor.Published.Predicate.RootVersion != f.root.Version {
		t.Errorf("unreadable component: got %+v, want a bundle without a removal", poor)
	}
	source.err = nil
	if healed := publish(p); !healed.IsPushed || len(healed.Published.State.Manifests) != 1 ||
		len(healed.Published.Predicate.Removals) != 0 {
		t.Errorf("readable component: got %+v, want a bundle with the module", healed)
	}
}

// A restarted publisher cannot check the signature while the components' registry is down.
func TestUnknownVerdictKeepsTheLastManifest(t *testing.T) {
	_, source, publish, started := newFragileFleet(t)
	signed := func() *Publisher {
		p := started()
		p.RequiresSignature = func(string) bool { return true }
		p.Components = component.NewReader(component.Options{
			Sources: []component.Source{source},
			Check:   func(context.Context, *component.Reader, component.Component) error { return nil },
		})
		return p
	}
	if first := publish(signed()); len(first.Published.State.Manifests) != 1 {
		t.Fatalf("first bundle: got %+v, want one Manifest", first)
	}
	source.err = errors.New("503 Service Unavailable")
	if next := publish(signed()); len(next.Published.State.Manifests) != 1 {
		t.Errorf("components' registry down: got %+v, want the Manifest of the last bundle", next)
	}
}
