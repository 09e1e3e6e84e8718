package controller

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/opencontainers/go-digest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// The test replaces the bundle in the registry with an older one. The publisher detects this only when an operator
// requests a reconciliation.
func TestRequestedReconcileReadsTheRegistryAgain(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 2)
	w.must(w.api.Delete(t.Context(), w.policy()))
	w.settle()
	const name = "runtime-001"
	key := client.ObjectKey{Namespace: "kcp-system", Name: name}
	repository, err := w.place.Repository(t.Context(), bundle.DesiredRepository(name))
	w.must(err)
	older, err := store.Fetch(t.Context(), repository, bundle.TagDesired)
	w.must(err)
	w.promote("1.1.0")
	w.settle()
	newest := w.digests[name]
	w.must(store.PushManifest(t.Context(), repository, bundle.Blob(older), bundle.TagDesired))
	there := func() digest.Digest {
		t.Helper()
		found, err := store.Head(t.Context(), repository, bundle.TagDesired)
		w.must(err)
		return found
	}
	poll := func() *v1beta2.Kyma {
		t.Helper()
		_, err := w.kymas.Reconcile(quiet(t.Context()), ctrl.Request{NamespacedName: key})
		w.must(err)
		kyma := &v1beta2.Kyma{}
		w.must(w.api.Get(t.Context(), key, kyma))
		return kyma
	}
	asked := func() bool { return w.kymas.fleet.Get(key).Report.AskedAt.Equal(w.now) }

	poll()
	w.now = w.now.Add(w.kymas.PollInterval / 10)
	kyma := poll()
	if asked() || there() == newest || newest == "" {
		t.Fatalf("pass soon after the last one: got report read %t and bundle %s, want no read", asked(), there())
	}
	kyma.Annotations = map[string]string{v1beta2.AnnotationReconcileRequested: "now"}
	w.must(w.api.Update(t.Context(), kyma))
	poll() // the next reconcile writes the status
	if kyma = poll(); !asked() || there() == older.Descriptor.Digest || kyma.Status.LastHandledReconcileAt != "now" {
		t.Errorf("after the request: got report read %t, bundle %s, handled request %q", asked(), there(),
			kyma.Status.LastHandledReconcileAt)
	}
	w.now = w.now.Add(w.kymas.PollInterval / 10)
	if poll(); asked() {
		t.Error("a handled request caused another read of the registry")
	}
}

func TestRequestedReconcileIgnoresTheRegistryBackoff(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 2)
	w.settle()
	key := client.ObjectKey{Namespace: "kcp-system", Name: "runtime-001"}
	request, working := ctrl.Request{NamespacedName: key}, w.kymas.reports.place
	w.kymas.reports.place, w.kymas.backoff.checkRegistry = asking(t, answers(http.StatusBadGateway)).place,
		func(context.Context) error { return errors.New("away") }
	w.now = w.now.Add(w.kymas.PollInterval)
	_, err := w.kymas.Reconcile(quiet(t.Context()), request)
	w.must(err)
	w.kymas.reports.place, w.kymas.backoff.checkRegistry = working, nil
	poll := func() *v1beta2.Kyma {
		t.Helper()
		_, err := w.kymas.Reconcile(quiet(t.Context()), request)
		w.must(err)
		kyma := &v1beta2.Kyma{}
		w.must(w.api.Get(t.Context(), key, kyma))
		return kyma
	}
	kyma := poll()
	if w.kymas.fleet.Get(key).Report.AskedAt.Equal(w.now) || w.kymas.backoff.remainingDelay(key, w.now) == 0 {
		t.Fatal("the publisher does not wait for the backoff")
	}
	kyma.Annotations = map[string]string{v1beta2.AnnotationReconcileRequested: "now"}
	w.must(w.api.Update(t.Context(), kyma))
	if kyma = poll(); kyma.Status.LastHandledReconcileAt != "now" || w.kymas.backoff.remainingDelay(key, w.now) != 0 {
		t.Errorf("handled request %q, and the remaining backoff is %s, want no backoff",
			kyma.Status.LastHandledReconcileAt, w.kymas.backoff.remainingDelay(key, w.now))
	}
}
