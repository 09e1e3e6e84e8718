package install

import (
	"cmp"
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/readiness"
)

// observer reads the objects that determine the state of a module.
type observer struct {
	planner *planner
	watches *drift.Watches
	ledger  *ledger
}

// observe reads the objects that determine a Manifest's status. It does not read an object that was ready or is cached,
// if its watch reports no change since then. watched is true if watches report changes to all objects that determine
// the status.
func (ob *observer) observe(
	ctx context.Context, m *v1beta2.Manifest, before *memo, inventory []v1beta2.Resource,
) (seen []readiness.Observation, watched bool, err error) {
	wanted, watched := ob.statusObjects(m, object.Without(inventory, before.dropped))
	r, ok := ob.planner.defaultCR(m)
	isDefaultCR := func(k guard.Key) bool { return ok && k == object.KeyOf(r) }
	seen, err = ob.readAll(ctx, m, before, wanted, func(w v1beta2.Resource) bool {
		return before.isReady(object.KeyOf(w), ob.watches.Version(w)) && !isDefaultCR(object.KeyOf(w))
	})
	if err != nil {
		return nil, false, err
	}
	ready, live, completed := map[guard.Key]string{}, map[guard.Key]*unstructured.Unstructured{}, planning.CompletedJobs(m)
	for n := range seen {
		o := &seen[n]
		switch {
		case o.Object == nil && completed.Has(o.Key):
			o.Completed = true
		case isDefaultCR(o.Key):
			o.Checks = readiness.Checks(m)
			if o.Object != nil && o.Object.GetAnnotations()[v1beta2.AnnotationOwnedBy] != ob.planner.owner(m).OwnedBy {
				watched = false // the default CR lacks the label that the watches select
			}
		case o.KnownReady:
			ready[o.Key] = before.readyVersions[o.Key]
		default:
			if state, _ := readiness.ObjectState(*o); state == v1beta2.StateReady && o.Object != nil {
				ready[o.Key] = o.Object.GetResourceVersion()
			}
		}
		if o.Object != nil && ready[o.Key] == "" && len(live) < maxCachedObjects {
			o.Object.SetManagedFields(nil)
			live[o.Key] = o.Object
		}
	}
	before.readyVersions, before.cachedObjects, before.freshObjects = ready, live, nil
	return seen, watched, ob.ledger.addCompletedJobs(ctx, m, readiness.CompletedPods(seen))
}

// statusObjects returns the objects that determine a Manifest's status. watched is true if watches report changes to
// all these objects.
func (ob *observer) statusObjects(
	m *v1beta2.Manifest, inventory []v1beta2.Resource,
) (wanted []v1beta2.Resource, watched bool) {
	known := object.KeysOf(inventory)
	watched = true
	for _, r := range inventory {
		if readiness.HasStatus(r) {
			wanted = append(wanted, r)
		}
	}
	if manager := m.Spec.Manager; manager != nil {
		r := v1beta2.Resource{
			GroupVersionKind: manager.GroupVersionKind,
			Name:             manager.Name, Namespace: cmp.Or(manager.Namespace, m.Namespace),
		}
		if namespaced, err := ob.planner.accounts.Own().Scope(object.GVKOf(r)); err == nil && !namespaced {
			r.Namespace = ""
		}
		if !known.Has(object.KeyOf(r)) && guard.ProtectionReason(object.KeyOf(r), ob.planner.namespace) == "" {
			wanted, watched = append(wanted, r), false
		}
	}
	if r, ok := ob.planner.defaultCR(m); ok && !object.KeysOf(wanted).Has(object.KeyOf(r)) {
		wanted = append(wanted, r)
	}
	return wanted, watched
}

// readAll reads the wanted objects and returns observations in the same order. It skips an object if known returns true
// for it, or if the cache has a current copy.
func (ob *observer) readAll(
	ctx context.Context, m *v1beta2.Manifest, before *memo, wanted []v1beta2.Resource,
	known func(v1beta2.Resource) bool,
) ([]readiness.Observation, error) {
	seen, denied := make([]readiness.Observation, len(wanted)), make([]error, len(wanted))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentReads)
	for n, w := range wanted {
		seen[n].Key = object.KeyOf(w)
		if seen[n].KnownReady = known(w); seen[n].KnownReady {
			continue
		}
		if o := ob.cachedObject(before, w); o != nil {
			seen[n].Object = o
			continue
		}
		group.Go(func() error {
			if err := readInto(ctx, ob.planner.accounts.Of(m), w, &seen[n]); err != nil {
				return err
			}
			var err error
			if seen[n].WaitsForPod, err = ob.waitsForPod(ctx, seen[n]); account.LacksRight(err) {
				denied[n], err = err, nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return seen, before.recordRead(readStorageClasses, errors.Join(denied...))
}

// cachedObject returns an object that the agent does not need to read: the API server's response to an apply, or a
// cached object that is unchanged according to its watch. It returns nil if the agent must read the object. This is
// always the case for PersistentVolumeClaims, because their state also depends on the StorageClass.
func (ob *observer) cachedObject(before *memo, r v1beta2.Resource) *unstructured.Unstructured {
	k := object.KeyOf(r)
	if k.GroupKind() == object.ClaimKind {
		return nil
	}
	if o := before.freshObjects[k]; o != nil {
		return o
	}
	if o := before.cachedObjects[k]; o != nil && o.GetResourceVersion() == ob.watches.Version(r) {
		return o
	}
	return nil
}

const maxCachedObjects = 20

// maxConcurrentReads limits concurrent reads for one Manifest.
const maxConcurrentReads = 4

// readInto reads an object into an observation. An object that the API server cannot read or convert is marked as
// unreadable.
func readInto(ctx context.Context, a *account.Account, r v1beta2.Resource, seen *readiness.Observation) (err error) {
	seen.Object, err = a.Get(ctx, r)
	if account.IsUnreadable(r, err) {
		seen.Unreadable = account.UnreadableText(r, err)
		return nil
	}
	return err
}

// waitsForPod reports whether a PersistentVolumeClaim is bound only when a Pod uses it. It reads the StorageClass with
// the agent's own account, because modules may lack the permission to read StorageClasses.
func (ob *observer) waitsForPod(ctx context.Context, seen readiness.Observation) (bool, error) {
	if seen.Object == nil || seen.GroupKind() != object.ClaimKind || !readiness.IsUnclaimed(seen.Object) {
		return false, nil
	}
	return ob.planner.accounts.Own().BindsLate(ctx, readiness.StorageClass(seen.Object))
}
