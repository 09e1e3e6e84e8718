package controller

import (
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// A module fails in a cloned runtime. The publisher does not publish bundles to the runtime, even after a restart, but
// shows the reported states.
func TestModuleStatesOfAClonedRuntimeAreShown(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 1)
	w.must(w.api.Delete(t.Context(), w.policy()))
	w.settle()
	name := w.names[0]
	report := func(state v1beta2.State) v1beta2.KymaStatus {
		t.Helper()
		w.now = w.now.Add(10 * time.Second)
		repository, err := w.place.Repository(t.Context(), bundle.ReportRepository(name))
		w.must(err)
		fetched, err := store.Fetch(t.Context(), repository, bundle.TagLatest)
		w.must(err)
		next, err := bundle.ClaimedReport(fetched)
		w.must(err)
		next.Sequence, next.Time, next.Twin = w.now.UnixMilli(), w.now, "another"
		for i := range next.Modules {
			next.Modules[i].State = state
		}
		manifest, err := bundle.ComposeReport(next, w.victimKey.signer)
		w.must(err)
		w.must(store.PushReport(t.Context(), w.place, name, manifest))
		w.poll()
		kyma := &v1beta2.Kyma{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "kcp-system", Name: name}, kyma))
		if kyma.Status.Runtime.ReportSequence != next.Sequence || kyma.Status.Runtime.Agent.Clone == "" {
			t.Fatalf("got report %d and agent %+v, want report %d of a clone", kyma.Status.Runtime.ReportSequence,
				kyma.Status.Runtime.Agent, next.Sequence)
		}
		return kyma.Status
	}
	for _, state := range []v1beta2.State{v1beta2.StateReady, v1beta2.StateError, v1beta2.StateReady} {
		if got := report(state); len(got.Modules) != 1 || got.Modules[0].State != state ||
			got.State != v1beta2.StateError {
			t.Errorf("the report has state %s: got modules %+v in a Kyma in state %s", state, got.Modules, got.State)
		}
	}
	w.restart()
	if got := report(v1beta2.StateProcessing); got.Modules[0].State != v1beta2.StateProcessing {
		t.Errorf("after a restart: got modules %+v, want the reported state Processing", got.Modules)
	}
	// The new process cannot verify the bundle in the registry, for example because the publisher key was rotated.
	w.restart()
	desired, err := w.place.Repository(t.Context(), bundle.DesiredRepository(name))
	w.must(err)
	last, err := store.Fetch(t.Context(), desired, bundle.TagDesired)
	w.must(err)
	foreign := bundle.NewBlob(ocispec.MediaTypeImageManifest, append(last.Bytes, '\n'))
	w.must(store.PushManifest(t.Context(), desired, foreign, bundle.TagDesired))
	if got := report(v1beta2.StateError); got.Modules[0].State != v1beta2.StateError {
		t.Errorf("without a bundle: got modules %+v, want the reported state Error", got.Modules)
	}
}
