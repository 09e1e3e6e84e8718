package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// remove removes a module from the cluster, or makes it unmanaged. Each call continues after the steps that earlier
// calls completed.
func (i *Installer) remove(ctx context.Context, m *v1beta2.Manifest) (outcome.Outcome, error) {
	out := outcome.Outcome{Inventory: m.Status.Synced}
	if !controllerutil.ContainsFinalizer(m, v1beta2.FinalizerManifest) {
		return outcome.Outcome{Gone: true}, nil
	}
	if m.Annotations[v1beta2.AnnotationUnmanaged] == v1beta2.True {
		return outcome.Outcome{Gone: true}, i.unmanage(ctx, m)
	}
	if !i.records.IsRemoved(m) {
		// Another client deleted the Manifest. Package objects removes the finalizer and creates the Manifest again.
		out.State = v1beta2.StateDeleting
		out.Ready = outcome.Finding{
			Reason:  v1beta2.ReasonRestoring,
			Message: "no bundle requests the removal of this module: it stays installed, and its Manifest is restored",
		}
		return out, nil
	}
	known := i.remembered(m)
	mine, moving, err := i.handOver(ctx, m, m.Status.Synced)
	if err != nil {
		return outcome.Outcome{}, err
	}
	if len(mine) == 0 && moving != "" && i.isIncomplete() {
		out = i.removing(m, known, out, []string{moving})
		out.Again = handOverInterval
		return out, nil
	}
	byUsers, err := i.userObjects(ctx, m, mine)
	if err != nil {
		return outcome.Outcome{}, err
	}
	if len(byUsers) > 0 {
		if err := i.upgradeLeaving(ctx, m, known, &out); err != nil {
			return outcome.Outcome{}, err
		}
		out.State = v1beta2.StateWarning
		out.Ready = outcome.Finding{
			Reason: v1beta2.ReasonCustomResourcesExist,
			Message: "custom resources of this module still exist, delete them to remove the module: " +
				excerpt.FirstFew(byUsers),
		}
		out.Again = known.nextCheck(m.Generation, i.now(), i.LookInterval)
		return out, nil
	}
	if r, ok := i.defaultCR(m); ok {
		left, err := i.deleteObjects(ctx, m, []v1beta2.Resource{r}, i.owner(m).OwnsDefaultCR)
		if err != nil {
			return outcome.Outcome{}, err
		}
		if len(left.objects) > 0 {
			err := i.unblock(ctx, m, known, &out, left)
			return i.removing(m, known, out, left.texts), err
		}
	}
	stages := planning.RemovalStages(object.Among(out.Inventory, object.KeysOf(mine)))
	for n, stage := range stages {
		gone := object.KeysOf(stage)
		if stage, err = i.keepNamespaces(ctx, m, stage); err != nil {
			return outcome.Outcome{}, err
		}
		left, err := i.deleteObjects(ctx, m, stage, i.mayDelete(m))
		if err != nil {
			return outcome.Outcome{}, err
		}
		for k := range object.KeysOf(left.objects) {
			delete(gone, k)
		}
		out.Inventory = object.Without(out.Inventory, gone)
		if len(left.objects) > 0 {
			err := i.correctLeaving(ctx, m, known, slices.Concat(stages[n+1:]...))
			return i.removing(m, known, out, left.texts), err
		}
	}
	if moving != "" {
		out = i.removing(m, known, out, []string{moving})
		out.Again = handOverInterval
		return out, nil
	}
	return outcome.Outcome{Gone: true}, nil
}

// unblock handles a removal that waits for the deletion of the default CR. If the API server cannot call a webhook for
// this deletion, unblock deletes the module's webhooks and policies. If the cause is not a webhook, unblock upgrades
// the module and corrects drift, because its operator may have to remove finalizers.
func (i *Installer) unblock(
	ctx context.Context, m *v1beta2.Manifest, known *memo, out *outcome.Outcome, left remainingObjects,
) error {
	known.webhooksDeleted = known.webhooksDeleted || left.unanswered
	if !known.webhooksDeleted {
		return i.upgradeLeaving(ctx, m, known, out)
	}
	hooks := slices.DeleteFunc(slices.Clone(out.Inventory), func(r v1beta2.Resource) bool {
		return r.Group != guard.AdmissionGroup
	})
	remaining, err := i.deleteObjects(ctx, m, hooks, i.mayDelete(m))
	if err != nil {
		return err
	}
	out.Inventory = object.Without(out.Inventory, object.KeysOf(object.Without(hooks, object.KeysOf(remaining.objects))))
	return nil
}

// upgradeLeaving upgrades a module while its removal is blocked. Only the operator of the newer version may be able to
// remove the finalizers. After the upgrade, upgradeLeaving corrects drift, so that the operator can work.
func (i *Installer) upgradeLeaving(ctx context.Context, m *v1beta2.Manifest, known *memo, out *outcome.Outcome) error {
	if known.checked == m.Generation {
		return i.correctLeaving(ctx, m, known, m.Status.Synced)
	}
	upgraded, err := i.apply(ctx, m, known, stepApply, nil)
	if err != nil {
		return err
	}
	out.Inventory, out.Resources, out.Installation, out.Images = upgraded.Inventory, upgraded.Resources,
		upgraded.Installation, upgraded.Images
	return nil
}

// correctLeaving corrects drift of a module during its removal. After a restart of the agent, it compares all objects
// once.
func (i *Installer) correctLeaving(
	ctx context.Context, m *v1beta2.Manifest, known *memo, stay []v1beta2.Resource,
) error {
	name := client.ObjectKeyFromObject(m)
	changed := i.watches.TakeChanged(name)
	changed.KeepOnly(object.KeysOf(stay))
	if known.checked != m.Generation {
		changed = object.KeysOf(stay)
	}
	if len(changed) == 0 {
		return nil
	}
	if known.holdBack(i.now()) > 0 {
		i.watches.Restore(name, changed)
		return nil
	}
	corrected, err := i.apply(ctx, m, known, stepCorrect, changed)
	if err != nil || corrected.State != "" {
		i.watches.Restore(name, changed)
		return err
	}
	known.checked, known.checkedAt = m.Generation, i.now()
	return nil
}

func (i *Installer) removing(m *v1beta2.Manifest, known *memo, out outcome.Outcome, stuck []string) outcome.Outcome {
	out.State = v1beta2.StateDeleting
	out.Again = known.nextCheck(m.Generation, i.now(), i.LookInterval)
	out.Ready = outcome.Finding{Reason: v1beta2.ReasonRemoving, Message: "waiting for the deletion of " + excerpt.FirstFew(stuck)}
	return out
}

// prune deletes the objects that are not in the current version. It keeps objects that other modules take over, and
// objects with data of users.
func (i *Installer) prune(ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan, out outcome.Outcome) (outcome.Outcome, error) {
	known.held, known.heldFor = "", heldInterval
	mine, moving, err := i.handOver(ctx, m, p.Prune)
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
		left, err := i.deleteObjects(ctx, m, []v1beta2.Resource{r}, i.mayDelete(m))
		if err != nil {
			return out, err
		}
		if len(left.objects) > 0 {
			leaving = append(leaving, left.texts...)
			continue
		}
		out.Inventory = object.Without(out.Inventory, object.KeysOf([]v1beta2.Resource{r}))
	}
	switch {
	case len(leaving) > 0:
		known.held = "waiting for the deletion of " + excerpt.FirstFew(leaving)
	case len(data) > 0:
		known.held, known.heldFor = excerpt.FirstFew(data), dataInterval
	}
	known.dropped = object.KeysOf(p.Prune)
	if len(p.Prune) > 0 {
		needed := out.Inventory
		if p.DefaultCR != nil {
			needed = object.Union(needed, []v1beta2.Resource{object.ResourceOf(p.DefaultCR)})
		}
		i.retain(ctx, m, needed)
	}
	return out, nil
}

// retain stops the watches that no Manifest needs.
func (i *Installer) retain(ctx context.Context, m *v1beta2.Manifest, needed []v1beta2.Resource) {
	var all v1beta2.ManifestList // shared with the cache, so do not modify it
	if err := i.cached.List(ctx, &all, client.InNamespace(i.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return // keep all watches; a watch that is not needed does no harm
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
	i.watches.Retain(needed)
}

// remainingObjects contains the objects that still exist after a deletion, with a message for each.
type remainingObjects struct {
	objects []v1beta2.Resource
	texts   []string
	// unanswered is true if the API server could not call a webhook for one of the objects.
	unanswered bool
}

func (l *remainingObjects) add(r v1beta2.Resource, why string) {
	l.objects, l.texts = append(l.objects, r), append(l.texts, object.KeyOf(r).String()+why)
}

// stillHidden handles an object whose kind the API server does not serve. If the API server may still store the object,
// stillHidden adds it to remaining. It does nothing if the kind is not served because the removal deletes the module's
// CRD or APIService.
func (i *Installer) stillHidden(
	ctx context.Context, m *v1beta2.Manifest, r v1beta2.Resource, remaining *remainingObjects,
) error {
	defined := slices.ContainsFunc(m.Status.Synced, func(d v1beta2.Resource) bool {
		gk := object.KeyOf(d).GroupKind()
		return (guard.IsCRD(gk) || object.Intercepts(gk)) && strings.HasSuffix(d.Name, "."+r.Group)
	})
	if defined {
		return nil
	}
	why, err := i.actors[""].Hidden(ctx, r)
	if why != "" {
		remaining.add(r, " (may still exist: "+why+")")
	}
	return err
}

// deleteObjects deletes each given object if ours returns true for it. It returns the objects that still exist. It
// skips objects with the annotation helm.sh/resource-policy: keep. An object that cannot be deleted does not
// block the other objects.
func (i *Installer) deleteObjects(
	ctx context.Context, m *v1beta2.Manifest, resources []v1beta2.Resource,
	ours func(*metav1.PartialObjectMetadata) bool,
) (left remainingObjects, err error) {
	a := i.actor(m)
	var lacking error
	for _, r := range resources {
		o, err := a.ServedMetadata(ctx, r)
		switch {
		case errors.Is(err, account.ErrAbsentKind):
			if o, err = nil, i.stillHidden(ctx, m, r, &left); err != nil {
				return remainingObjects{}, err
			}
		case apierrors.IsInternalError(err):
			left.add(r, fmt.Sprintf(" (cannot be read: %s)", account.Text(err)))
			continue
		case err != nil:
			return remainingObjects{}, fmt.Errorf("%s: %w", object.KeyOf(r), err)
		}
		if o == nil || guard.IsShared(object.KeyOf(r), i.Namespace) || guard.Protected(object.KeyOf(r), i.Namespace) != "" ||
			render.Keeps(o) || !ours(o) {
			continue
		}
		r.Version = o.GroupVersionKind().Version // delete the object in the API version that could be read
		if o.DeletionTimestamp.IsZero() {
			err := a.Client.Delete(ctx, object.Reference(r), client.Preconditions{UID: &o.UID},
				client.PropagationPolicy(metav1.DeletePropagationBackground))
			switch {
			case client.IgnoreNotFound(err) == nil:
			case apierrors.IsForbidden(err):
				lacking = fmt.Errorf("delete %s: %w", object.KeyOf(r), err)
				continue
			case account.IsTemporary(err):
				return remainingObjects{}, fmt.Errorf("delete %s: %w", object.KeyOf(r), err)
			default:
				left.add(r, fmt.Sprintf(" (cannot be deleted: %s)", account.Text(err)))
				left.unanswered = left.unanswered || apierrors.IsInternalError(err)
				continue
			}
			if o, err = a.Metadata(ctx, r); err != nil {
				return remainingObjects{}, fmt.Errorf("%s: %w", object.KeyOf(r), err)
			}
		}
		// Kubernetes may need long to empty a namespace, so do not wait for its deletion.
		if o == nil || guard.IsNamespace(object.GVKOf(r).GroupKind()) {
			continue
		}
		left.add(r, remaining(o))
	}
	if lacking != nil {
		return remainingObjects{}, lacking
	}
	return left, nil
}

func remaining(o *metav1.PartialObjectMetadata) string {
	if len(o.Finalizers) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it has finalizers: %s)", strings.Join(o.Finalizers, ", "))
}

// userObjects returns the names of users' custom resources that would be deleted with the module's CRDs.
func (i *Installer) userObjects(ctx context.Context, m *v1beta2.Manifest, mine []v1beta2.Resource) ([]string, error) {
	by, synced := i.owner(m), object.KeysOf(m.Status.Synced)
	deletes := i.mayDelete(m)
	defaultCR, _ := i.defaultCR(m)
	ours := func(k guard.Key, o *metav1.PartialObjectMetadata) bool {
		return synced.Has(k) && deletes(o) || k == object.KeyOf(defaultCR) && by.OwnsDefaultCR(o)
	}
	var found []string
	for _, r := range mine {
		if !guard.IsCRD(object.GVKOf(r).GroupKind()) {
			continue
		}
		names, err := i.actor(m).Instances(ctx, r, ours)
		if err != nil {
			return nil, err
		}
		found = append(found, names...)
	}
	return found, nil
}

// unmanage removes the agent's labels and annotations from the module's objects. It does not delete the objects.
func (i *Installer) unmanage(ctx context.Context, m *v1beta2.Manifest) error {
	a, objects, released := i.actor(m), m.Status.Synced, i.records.Read(m).Released
	defaultCR, ok := i.defaultCR(m)
	if ok {
		objects = object.Union(objects, []v1beta2.Resource{defaultCR})
	}
	for _, r := range objects {
		o, err := a.Metadata(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", object.KeyOf(r), err)
		}
		if o == nil || !i.owner(m).Made(o) {
			continue
		}
		if released {
			if err := a.GiveBack(ctx, r, i.FieldManager); err != nil {
				return fmt.Errorf("return %s to lifecycle-manager: %w", object.KeyOf(r), err)
			}
			if ok && object.KeyOf(r) == object.KeyOf(defaultCR) {
				if err := a.ReleaseDefaultCR(ctx, o); err != nil {
					return fmt.Errorf("return %s to lifecycle-manager: %w", object.KeyOf(r), err)
				}
			}
			continue
		}
		if err := a.Unmark(ctx, o); err != nil {
			return fmt.Errorf("remove the agent's marks from %s: %w", object.KeyOf(r), err)
		}
	}
	return nil
}
