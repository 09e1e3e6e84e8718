package install

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// observe reads the objects that determine the status of a Manifest. It does not read an object that was ready or is
// cached, if its watch reports no change since then. watched is true if watches report changes of all objects that
// determine the status.
func (i *Installer) observe(
	ctx context.Context, m *v1beta2.Manifest, before *memo, inventory []v1beta2.Resource,
) (seen []observation, watched bool, err error) {
	wanted, watched := i.statusObjects(m, without(inventory, before.dropped))
	r, ok := i.defaultCR(m)
	isDefaultCR := func(k key) bool { return ok && k == keyOf(r) }
	seen, err = i.readAll(ctx, m, before, wanted, func(w v1beta2.Resource) bool {
		return i.isReady(before, w) && !isDefaultCR(keyOf(w))
	})
	if err != nil {
		return nil, false, err
	}
	ready, live, completed := map[key]string{}, map[key]*unstructured.Unstructured{}, completedJobs(m)
	for n := range seen {
		o := &seen[n]
		switch {
		case o.object == nil && completed.has(o.key):
			o.completed = true
		case isDefaultCR(o.key):
			o.checks = stateChecks(m)
			if o.object != nil && o.object.GetAnnotations()[v1beta2.AnnotationOwnedBy] != i.owner(m).Mark {
				watched = false // the default CR lacks the label that the watches select
			}
		case o.knownReady:
			ready[o.key] = before.ready[o.key]
		default:
			if state, _ := objectState(*o); state == v1beta2.StateReady && o.object != nil {
				ready[o.key] = o.object.GetResourceVersion()
			}
		}
		if o.object != nil && ready[o.key] == "" && len(live) < maxCachedObjects {
			o.object.SetManagedFields(nil)
			live[o.key] = o.object
		}
	}
	before.ready, before.objects, before.fresh = ready, live, nil
	return seen, watched, i.addCompletedJobs(ctx, m, completedPods(seen))
}

// statusObjects returns the objects that determine the status of a Manifest. watched is true if watches report
// changes of all these objects.
func (i *Installer) statusObjects(
	m *v1beta2.Manifest, inventory []v1beta2.Resource,
) (wanted []v1beta2.Resource, watched bool) {
	known := keysOf(inventory)
	watched = true
	for _, r := range inventory {
		if hasStatus(r) {
			wanted = append(wanted, r)
		}
	}
	if manager := m.Spec.Manager; manager != nil {
		r := v1beta2.Resource{
			GroupVersionKind: manager.GroupVersionKind,
			Name:             manager.Name, Namespace: cmp.Or(manager.Namespace, m.Namespace),
		}
		if namespaced, err := i.scope(gvkOf(r)); err == nil && !namespaced {
			r.Namespace = ""
		}
		if !known.has(keyOf(r)) && guard.Protected(keyOf(r), i.Namespace) == "" {
			wanted, watched = append(wanted, r), false
		}
	}
	if r, ok := i.defaultCR(m); ok && !keysOf(wanted).has(keyOf(r)) {
		wanted = append(wanted, r)
	}
	return wanted, watched
}

const maxCachedObjects = 20

// readsAtOnce limits concurrent reads for one Manifest.
const readsAtOnce = 4

// readAll reads the wanted objects and returns observations in the same order. It skips an object if known returns true
// for it, or if the cache has a current copy.
func (i *Installer) readAll(
	ctx context.Context, m *v1beta2.Manifest, before *memo, wanted []v1beta2.Resource,
	known func(v1beta2.Resource) bool,
) ([]observation, error) {
	seen := make([]observation, len(wanted))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for n, w := range wanted {
		seen[n].key = keyOf(w)
		if seen[n].knownReady = known(w); seen[n].knownReady {
			continue
		}
		if o := i.cachedObject(before, w); o != nil {
			seen[n].object = o
			continue
		}
		group.Go(func() error { return i.actor(m).readInto(ctx, w, &seen[n]) })
	}
	return seen, group.Wait()
}

// cachedObject returns an object that the agent need not read: the API server's response to an apply, or a cached
// object that is unchanged according to its watch. It returns nil if the agent must read the object. This is always the
// case for PersistentVolumeClaims, because their state also depends on the StorageClass.
func (i *Installer) cachedObject(before *memo, r v1beta2.Resource) *unstructured.Unstructured {
	k := keyOf(r)
	if k.GroupKind() == (schema.GroupKind{Kind: "PersistentVolumeClaim"}) {
		return nil
	}
	if o := before.fresh[k]; o != nil {
		return o
	}
	if o := before.objects[k]; o != nil && o.GetResourceVersion() == i.watches.version(r) {
		return o
	}
	return nil
}

// readInto reads an object into an observation. An object that the API server cannot read or convert is marked as
// unreadable.
func (a *actor) readInto(ctx context.Context, r v1beta2.Resource, seen *observation) (err error) {
	seen.object, err = a.get(ctx, r)
	if apierrors.IsInternalError(err) {
		seen.unreadable = plain(err)
		return nil
	}
	if err != nil || seen.object == nil || seen.GroupKind() != (schema.GroupKind{Kind: "PersistentVolumeClaim"}) ||
		!isUnclaimed(seen.object) {
		return err
	}
	seen.waitsForPod, err = a.bindsLate(ctx, textAt(seen.object, "spec", "storageClassName"))
	return err
}

// bindsLate reports whether a storage class binds volumes only when a Pod uses them. It returns false if the class is
// missing or unreadable.
func (a *actor) bindsLate(ctx context.Context, class string) (bool, error) {
	if class == "" {
		return false, nil
	}
	live, err := a.get(
		ctx,
		v1beta2.Resource{
			GroupVersionKind: metav1.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"},
			Name:             class,
		},
	)
	if live == nil || err != nil {
		return false, ignoreForbidden(err)
	}
	return textAt(live, "volumeBindingMode") == "WaitForFirstConsumer", nil
}

func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// stateChecks returns the custom state checks of a module's default CR.
func stateChecks(m *v1beta2.Manifest) []v1beta2.CustomStateCheck {
	var checks []v1beta2.CustomStateCheck
	if err := json.Unmarshal([]byte(m.Annotations[v1beta2.AnnotationCustomStateCheck]), &checks); err != nil {
		return nil
	}
	return checks
}

// defaultCR returns the default CR that the agent creates and deletes. It returns false if the Manifest has none.
func (i *Installer) defaultCR(m *v1beta2.Manifest) (v1beta2.Resource, bool) {
	if m.Spec.Resource == nil || m.Spec.CustomResourcePolicy == v1beta2.PolicyIgnore {
		return v1beta2.Resource{}, false
	}
	o := m.Spec.Resource.DeepCopy()
	namespaced, err := i.scope(o.GroupVersionKind())
	place(o, namespaced || err != nil, i.Namespace)
	r := resourceOf(o)
	return r, guard.Protected(keyOf(r), i.Namespace) == ""
}

// createDefaultCR creates the default CR if it does not exist. It does not change the spec of an existing CR, because
// users may have edited it. It adds the module's labels and annotations to a CR that lifecycle-manager created.
func (i *Installer) createDefaultCR(
	ctx context.Context, a *actor, by guard.Owner, known *memo, p plan,
) (created bool, wait string, err error) {
	if p.defaultCR == nil {
		return false, "", nil
	}
	r := resourceOf(p.defaultCR)
	switch inPlace, err := i.ensureWatches(ctx, []v1beta2.Resource{r}, definedGroups(p)); {
	case meta.IsNoMatchError(err):
		return false, "waiting for the API server to serve the default CR: " + err.Error(), nil
	case err != nil:
		return false, "", err
	case !inPlace:
		return false, "waiting for watches to start", nil
	}
	if i.watches.isMarked(r, by.Mark) {
		return false, "", nil
	}
	if !p.absent.has(keyOf(r)) {
		live, err := a.owned(ctx, r)
		switch {
		case err != nil:
			return false, "", err
		case live != nil:
			return false, "", a.adoptDefaultCR(ctx, live, by)
		}
	}
	made := p.defaultCR.DeepCopy()
	err = a.cluster.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) {
		return false, "", nil
	}
	if apierrors.IsNotFound(err) {
		return false, fmt.Sprintf("waiting for the API server to accept the default CR %s: %s", keyOf(r), err), nil
	}
	if err == nil {
		known.keepFresh(keyOf(r), made)
	}
	return err == nil, "", err
}
