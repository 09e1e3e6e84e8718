package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// remove removes a module from the cluster, or leaves it in place. Each pass starts over and skips finished steps.
func (i *Installer) remove(ctx context.Context, m *v1beta2.Manifest) (outcome, error) {
	out := outcome{inventory: m.Status.Synced}
	if !controllerutil.ContainsFinalizer(m, v1beta2.FinalizerManifest) {
		return outcome{gone: true}, nil
	}
	if m.Annotations[v1beta2.AnnotationUnmanaged] == v1beta2.True {
		return outcome{gone: true}, i.unmanage(ctx, m)
	}
	if !m.IsRemoved() {
		// Another client deleted the Manifest, its definition or its namespace. The agent releases it and creates it
		// again.
		out.state = v1beta2.StateDeleting
		out.ready = finding{
			reason:  v1beta2.ReasonRestoring,
			message: "no bundle removes this module: it stays, and its Manifest comes back",
		}
		return out, nil
	}
	known := i.remembered(m)
	mine, moving, err := i.handOver(ctx, m, m.Status.Synced)
	if err != nil {
		return outcome{}, err
	}
	if len(mine) == 0 && moving != "" && i.isIncomplete() {
		out = i.removing(m, known, out, []string{moving})
		out.again = handOverInterval
		return out, nil
	}
	byUsers, err := i.userObjects(ctx, m, mine)
	if err != nil {
		return outcome{}, err
	}
	if len(byUsers) > 0 {
		if err := i.upgradeLeaving(ctx, m, known, &out); err != nil {
			return outcome{}, err
		}
		out.state = v1beta2.StateWarning
		out.ready = finding{
			reason:  v1beta2.ReasonCustomResourcesExist,
			message: "the module goes when its custom resources are gone, delete them: " + firstFew(byUsers),
		}
		out.again = known.nextCheck(m.Generation, i.now(), i.LookInterval)
		return out, nil
	}
	if r, ok := i.defaultCR(m); ok {
		left, err := i.deleteObjects(ctx, m, []v1beta2.Resource{r}, i.owner(m).OwnsDefaultCR)
		if err != nil {
			return outcome{}, err
		}
		if len(left.objects) > 0 {
			err := i.unblock(ctx, m, known, &out, left)
			return i.removing(m, known, out, left.texts), err
		}
	}
	stages := removalStages(among(out.inventory, keysOf(mine)))
	for n, stage := range stages {
		gone := keysOf(stage)
		if stage, err = i.keepNamespaces(ctx, m, stage); err != nil {
			return outcome{}, err
		}
		left, err := i.deleteObjects(ctx, m, stage,
			i.owner(m).MayDelete(m.Annotations[v1beta2.AnnotationInherited] != ""))
		if err != nil {
			return outcome{}, err
		}
		for k := range keysOf(left.objects) {
			delete(gone, k)
		}
		out.inventory = without(out.inventory, gone)
		if len(left.objects) > 0 {
			err := i.correctLeaving(ctx, m, known, slices.Concat(stages[n+1:]...))
			return i.removing(m, known, out, left.texts), err
		}
	}
	if moving != "" {
		out = i.removing(m, known, out, []string{moving})
		out.again = handOverInterval
		return out, nil
	}
	return outcome{gone: true}, nil
}

// unblock continues a removal that waits for the default CR. If a webhook that the API server cannot call blocks its
// deletion, the module's webhooks and policies are deleted first: their server may never return. Otherwise the module
// is kept up to date, because its operator may have finalizers to remove. Webhooks that were deleted once are not
// applied again.
func (i *Installer) unblock(
	ctx context.Context, m *v1beta2.Manifest, known *memo, out *outcome, left leftBehind,
) error {
	known.unhooked = known.unhooked || left.unanswered
	if !known.unhooked {
		return i.upgradeLeaving(ctx, m, known, out)
	}
	hooks := slices.DeleteFunc(slices.Clone(out.inventory), func(r v1beta2.Resource) bool {
		return r.Group != guard.AdmissionGroup
	})
	remaining, err := i.deleteObjects(ctx, m, hooks,
		i.owner(m).MayDelete(m.Annotations[v1beta2.AnnotationInherited] != ""))
	if err != nil {
		return err
	}
	out.inventory = without(out.inventory, keysOf(without(hooks, keysOf(remaining.objects))))
	return nil
}

// upgradeLeaving applies a newer version of a module whose removal is blocked, because its operator may need that
// version to remove its finalizers. A module that cannot be upgraded is removed in its version. Deleted and changed
// objects are restored, because the module needs its operator for the removal.
func (i *Installer) upgradeLeaving(ctx context.Context, m *v1beta2.Manifest, known *memo, out *outcome) error {
	if known.checked == m.Generation {
		return i.correctLeaving(ctx, m, known, m.Status.Synced)
	}
	upgraded, err := i.apply(ctx, m, known, stepApply, nil)
	if err != nil {
		return err
	}
	out.inventory, out.resources, out.installation, out.images = upgraded.inventory, upgraded.resources,
		upgraded.installation, upgraded.images
	return nil
}

// correctLeaving corrects drift of objects that stay until later in the removal of a module. After a restart of the
// agent it compares all of them, and then those that watches saw change.
func (i *Installer) correctLeaving(
	ctx context.Context, m *v1beta2.Manifest, known *memo, stay []v1beta2.Resource,
) error {
	name := client.ObjectKeyFromObject(m)
	changed := i.watches.take(name)
	changed.keepOnly(keysOf(stay))
	if known.checked != m.Generation {
		changed = keysOf(stay)
	}
	if len(changed) == 0 {
		return nil
	}
	if known.holdBack(i.now()) > 0 {
		i.watches.giveBack(name, changed)
		return nil
	}
	corrected, err := i.apply(ctx, m, known, stepCorrect, changed)
	if err != nil || corrected.state != "" {
		i.watches.giveBack(name, changed)
		return err
	}
	known.checked, known.checkedAt = m.Generation, i.now()
	return nil
}

func (i *Installer) removing(m *v1beta2.Manifest, known *memo, out outcome, stuck []string) outcome {
	out.state = v1beta2.StateDeleting
	out.again = known.nextCheck(m.Generation, i.now(), i.LookInterval)
	out.ready = finding{reason: v1beta2.ReasonRemoving, message: "waiting until it is gone: " + firstFew(stuck)}
	return out
}

// prune deletes the objects that a version no longer has. It keeps and names those that other modules take
// over, and those with data that the module did not bring.
func (i *Installer) prune(ctx context.Context, m *v1beta2.Manifest, known *memo, p plan, out outcome) (outcome, error) {
	known.held, known.heldFor = "", heldInterval
	mine, moving, err := i.handOver(ctx, m, p.prune)
	if err != nil {
		return out, err
	}
	known.handingOver = moving
	var data, leaving []string
	for _, r := range mine {
		why, err := i.keepsData(ctx, m, r)
		if err != nil {
			return out, err
		}
		if why != "" {
			data = append(data, why)
			continue
		}
		left, err := i.deleteObjects(ctx, m, []v1beta2.Resource{r},
			i.owner(m).MayDelete(m.Annotations[v1beta2.AnnotationInherited] != ""))
		if err != nil {
			return out, err
		}
		if len(left.objects) > 0 {
			leaving = append(leaving, left.texts...)
			continue
		}
		out.inventory = without(out.inventory, keysOf([]v1beta2.Resource{r}))
	}
	switch {
	case len(leaving) > 0:
		known.held = "waiting until it is gone: " + firstFew(leaving)
	case len(data) > 0:
		known.held, known.heldFor = firstFew(data), dataInterval
	}
	known.dropped = keysOf(p.prune)
	if len(p.prune) > 0 {
		needed := out.inventory
		if p.defaultCR != nil {
			needed = union(needed, []v1beta2.Resource{resourceOf(p.defaultCR)})
		}
		i.retain(ctx, m, needed)
	}
	return out, nil
}

// retain ends watches that neither this Manifest needs nor any other.
func (i *Installer) retain(ctx context.Context, m *v1beta2.Manifest, needed []v1beta2.Resource) {
	var all v1beta2.ManifestList // of the cache's own objects, which are only read
	if err := i.cached.List(ctx, &all, client.InNamespace(i.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return // a watch too many does no harm
	}
	needed = slices.Clone(needed)
	for n := range all.Items {
		other := &all.Items[n]
		if other.UID == m.UID {
			continue
		}
		needed = append(needed, other.Status.Synced...)
		if r, ok := i.defaultCR(other); ok {
			needed = append(needed, r)
		}
	}
	i.watches.retain(needed)
}

// leftBehind are the objects that still exist after a deletion, with a text for each.
type leftBehind struct {
	objects []v1beta2.Resource
	texts   []string
	// unanswered is true if a webhook did not respond to the API server about one of them.
	unanswered bool
}

func (l *leftBehind) add(r v1beta2.Resource, why string) {
	l.objects, l.texts = append(l.objects, r), append(l.texts, keyOf(r).String()+why)
}

// stillHidden counts an object whose kind is not served as existing if the API server may still store it. If the module
// also contains the definition or APIService of the kind, the object is removed with it.
func (i *Installer) stillHidden(ctx context.Context, m *v1beta2.Manifest, r v1beta2.Resource, left *leftBehind) error {
	defined := slices.ContainsFunc(m.Status.Synced, func(d v1beta2.Resource) bool {
		gk := keyOf(d).GroupKind()
		return (guard.IsCRD(gk) || intercepts(gk)) && strings.HasSuffix(d.Name, "."+r.Group)
	})
	if defined {
		return nil
	}
	why, err := i.hidden(ctx, r)
	if why != "" {
		left.add(r, " (may still exist: "+why+")")
	}
	return err
}

// deleteObjects deletes objects of the Manifest and returns those that still exist. It skips objects of other owners
// and objects that their chart keeps; they count as gone. An object that cannot be deleted does not block the others.
func (i *Installer) deleteObjects(
	ctx context.Context, m *v1beta2.Manifest, resources []v1beta2.Resource,
	ours func(*metav1.PartialObjectMetadata) bool,
) (left leftBehind, err error) {
	a := i.actor(m)
	var lacking error
	for _, r := range resources {
		o, err := a.metadata(ctx, r)
		switch {
		case errors.Is(err, errAbsentKind):
			if o, err = nil, i.stillHidden(ctx, m, r, &left); err != nil {
				return leftBehind{}, err
			}
		case apierrors.IsInternalError(err):
			left.add(r, fmt.Sprintf(" (cannot be read: %s)", plain(err)))
			continue
		case err != nil:
			return leftBehind{}, fmt.Errorf("%s: %w", keyOf(r), err)
		}
		if o == nil || guard.IsShared(keyOf(r), i.Namespace) || guard.Protected(keyOf(r), i.Namespace) != "" ||
			render.Keeps(o) || !ours(o) {
			continue
		}
		r.Version = o.GroupVersionKind().Version // it was read in this one
		if o.DeletionTimestamp.IsZero() {
			err := a.cluster.Delete(ctx, reference(r), client.Preconditions{UID: &o.UID},
				client.PropagationPolicy(metav1.DeletePropagationBackground))
			switch {
			case client.IgnoreNotFound(err) == nil:
			case apierrors.IsForbidden(err):
				lacking = fmt.Errorf("delete %s: %w", keyOf(r), err)
				continue
			case passing(err):
				return leftBehind{}, fmt.Errorf("delete %s: %w", keyOf(r), err)
			default:
				left.add(r, fmt.Sprintf(" (cannot be deleted: %s)", plain(err)))
				left.unanswered = left.unanswered || apierrors.IsInternalError(err)
				continue
			}
			if o, err = a.owned(ctx, r); err != nil {
				return leftBehind{}, fmt.Errorf("%s: %w", keyOf(r), err)
			}
		}
		// A namespace that is being deleted takes no new objects; emptying it is Kubernetes' own affair and can take
		// long.
		if o == nil || guard.IsNamespace(gvkOf(r).GroupKind()) {
			continue
		}
		left.add(r, leftover(o))
	}
	if lacking != nil {
		return leftBehind{}, lacking
	}
	return left, nil
}

func leftover(o *metav1.PartialObjectMetadata) string {
	if len(o.Finalizers) == 0 {
		return ""
	}
	return fmt.Sprintf(" (its finalizers are not done: %s)", strings.Join(o.Finalizers, ", "))
}

// userObjects names custom resources of the module's definitions that the module did not make: neither from its content
// nor as its default CR. They would go with their definition.
func (i *Installer) userObjects(ctx context.Context, m *v1beta2.Manifest, mine []v1beta2.Resource) ([]string, error) {
	by, synced := i.owner(m), keysOf(m.Status.Synced)
	deletes := by.MayDelete(m.Annotations[v1beta2.AnnotationInherited] != "")
	defaultCR, _ := i.defaultCR(m)
	ours := func(k key, o *metav1.PartialObjectMetadata) bool {
		return synced.has(k) && deletes(o) || k == keyOf(defaultCR) && by.OwnsDefaultCR(o)
	}
	var found []string
	for _, r := range mine {
		if !guard.IsCRD(gvkOf(r).GroupKind()) {
			continue
		}
		names, err := i.actor(m).instances(ctx, r, ours)
		if err != nil {
			return nil, err
		}
		found = append(found, names...)
	}
	return found, nil
}

// instances returns the names of a few custom resources of a definition, without those to ignore. It lists them in the
// stored version, which needs no conversion, or otherwise in another served version. Objects that cannot be listed
// count as existing.
func (a *actor) instances(
	ctx context.Context, crd v1beta2.Resource, ignore func(key, *metav1.PartialObjectMetadata) bool,
) ([]string, error) {
	definition, err := a.get(ctx, crd)
	if err != nil || definition == nil || definition.GetDeletionTimestamp() != nil {
		return nil, err
	}
	gvk, versions := guard.ServedKind(definition), guard.ServedVersions(definition)
	if len(versions) == 0 {
		return []string{fmt.Sprintf("objects of kind %s that cannot be listed (no version of it is served)", gvk.Kind)},
			nil
	}
	var found []string
	for _, version := range versions {
		gvk.Version = version
		if found, err = a.instancesIn(ctx, gvk, ignore); !isUnconverted(err) && !isUnserved(err) {
			break
		}
	}
	switch {
	case isUnserved(err):
		return nil, nil // the definition is not established, or is being deleted
	case apierrors.IsInternalError(err):
		const repair = "repair the conversion webhook of the definition, or set spec.conversion.strategy: None in it"
		return []string{fmt.Sprintf("objects of kind %s that cannot be listed (%s): %s", gvk.Kind, plain(err), repair)},
			nil
	case err != nil:
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	return found, nil
}

// instancesIn lists in one version.
func (a *actor) instancesIn(
	ctx context.Context, gvk schema.GroupVersionKind, ignore func(key, *metav1.PartialObjectMetadata) bool,
) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	var found []string
	for {
		if err := a.cluster.List(ctx, list, client.Limit(100), client.Continue(list.Continue)); err != nil {
			return nil, err
		}
		for n := range list.Items {
			o := &list.Items[n]
			k := keyIn(gvk.GroupKind(), o.Namespace, o.Name)
			if !ignore(k, o) {
				found = append(found, k.String())
			}
		}
		if list.Continue == "" || len(found) > few {
			return found, nil
		}
	}
}

// unmanage removes the agent's marks from the module's objects and keeps the objects. The label with the module stays.
func (i *Installer) unmanage(ctx context.Context, m *v1beta2.Manifest) error {
	a, objects := i.actor(m), m.Status.Synced
	defaultCR, ok := i.defaultCR(m)
	if ok {
		objects = union(objects, []v1beta2.Resource{defaultCR})
	}
	for _, r := range objects {
		o, err := a.owned(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", keyOf(r), err)
		}
		if o == nil || !i.owner(m).Made(o) {
			continue
		}
		if m.Annotations[v1beta2.AnnotationReleased] == v1beta2.True {
			if err := a.giveBack(ctx, r, i.FieldManager); err != nil {
				return fmt.Errorf("return %s to lifecycle-manager: %w", keyOf(r), err)
			}
			if ok && keyOf(r) == keyOf(defaultCR) {
				if err := a.releaseDefaultCR(ctx, o); err != nil {
					return fmt.Errorf("return %s to lifecycle-manager: %w", keyOf(r), err)
				}
			}
			continue
		}
		if err := a.unmark(ctx, o); err != nil {
			return fmt.Errorf("leave %s in place: %w", keyOf(r), err)
		}
	}
	return nil
}

// unmark removes the owner from an object that stays. The label of its module stays, so that the module can own it
// again.
func (a *actor) unmark(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null},"annotations":{%q:null}}}`, v1beta2.LabelManagedBy,
		v1beta2.AnnotationOwnedBy)
	return client.IgnoreNotFound(a.cluster.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)))
}

// unmanaged is the status of an unmanaged Manifest.
func unmanaged(m *v1beta2.Manifest) outcome {
	return outcome{
		inventory: m.Status.Synced, state: v1beta2.StateUnmanaged,
		ready: finding{
			reason: v1beta2.ReasonUnmanaged, message: "module is unmanaged; its resources are left in place",
		},
	}
}
