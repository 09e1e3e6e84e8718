package controller

import (
	"context"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// slowStore is a registry that calls the function in field during when the named repository is opened for the first
// time.
type slowStore struct {
	store.Store
	name   string
	during func()
}

func (s *slowStore) Repository(ctx context.Context, name string) (oras.Target, error) {
	if name == s.name && s.during != nil {
		during := s.during
		s.during = nil
		during()
	}
	return s.Store.Repository(ctx, name)
}

// A rollout to version 1.1.0 changes while the publisher waits for the registry.
func TestBundleIsPushedOnlyIfItsDecisionsAreCurrent(t *testing.T) {
	const name = "runtime-001"
	for title, c := range map[string]struct {
		change func(w *waves)
		pushed bool
	}{
		"nothing changes":     {func(*waves) {}, true},
		"channel is set back": {func(w *waves) { w.promote("1.0.0") }, false},
		"rollout is aborted": {func(w *waves) {
			rollout := w.rollout()
			rollout.Spec.Abort = true
			w.must(w.api.Update(w.Context(), rollout))
		}, false},
		"change affects only other runtimes": {func(w *waves) {
			policy := w.policy()
			w.must(w.api.Get(w.Context(), client.ObjectKeyFromObject(policy), policy))
			policy.Spec.Waves[2].Deadline.Duration = 2 * time.Hour
			w.must(w.api.Update(w.Context(), policy))
		}, true},
	} {
		t.Run(title, func(t *testing.T) {
			w := newWaves(t, newSurroundings(t), 2)
			w.settle()
			newest := func() digest.Digest {
				t.Helper()
				repository, err := w.place.Repository(t.Context(), bundle.DesiredRepository(name))
				w.must(err)
				found, err := store.Head(t.Context(), repository, bundle.TagDesired)
				w.must(err)
				return found
			}
			before := newest()
			w.promote("1.1.0")
			w.plan()
			w.kymas.Publisher.Place = &slowStore{w.place, bundle.DesiredRepository(name), func() {
				c.change(w)
				w.plan()
			}}
			result, err := w.kymas.Reconcile(quiet(t.Context()), ctrl.Request{
				NamespacedName: client.ObjectKey{Namespace: "kcp-system", Name: name},
			})
			w.must(err)
			if pushed := newest() != before; pushed != c.pushed {
				t.Fatalf("got a bundle with version 1.1.0: %t, want %t", pushed, c.pushed)
			}
			if result.RequeueAfter == 0 || result.RequeueAfter > time.Second {
				t.Errorf("the next reconcile is after %s, want within a second", result.RequeueAfter)
			}
			if w.settle(); (newest() != before) != c.pushed {
				t.Errorf("after later reconciles: got another bundle %t, want %t", newest() != before, c.pushed)
			}
		})
	}
}
