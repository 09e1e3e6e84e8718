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
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// deleter deletes modules' objects, and keeps objects that contain user data.
type deleter struct {
	planner      *planner
	watches      *drift.Watches
	inventories  *record.Inventories
	events       events.EventRecorder
	fieldManager string
}

// deleteObjects deletes each given object if ours returns true for it. It returns the objects that still exist. It
// skips objects with the annotation helm.sh/resource-policy: keep. An object that cannot be deleted does not
// block the other objects. removed contains all objects that the same upgrade or removal deletes.
func (d *deleter) deleteObjects(
	ctx context.Context, m *v1beta2.Manifest, resources []v1beta2.Resource, removed object.Keys,
	ours func(*metav1.PartialObjectMetadata) bool,
) (left remainingObjects, err error) {
	a := d.planner.accounts.Of(m)
	var missingPermission error
	for _, r := range resources {
		o, err := a.ServedMetadata(ctx, r)
		switch {
		case errors.Is(err, account.ErrAbsentKind):
			if o, err = nil, d.stillHidden(ctx, r, removed, &left); err != nil {
				return remainingObjects{}, err
			}
		case account.IsUnreadable(r, err):
			left.add(r, fmt.Sprintf(" (cannot be read: %s)", account.UnreadableText(r, err)))
			continue
		case err != nil:
			return remainingObjects{}, fmt.Errorf("%s: %w", object.KeyOf(r), err)
		}
		if o == nil || d.mustKeep(r, o) || !ours(o) {
			continue
		}
		r.Version = o.GroupVersionKind().Version // delete the object in the API version that could be read
		if o.DeletionTimestamp.IsZero() {
			err := a.Client.Delete(ctx, object.Reference(r), client.Preconditions{UID: &o.UID},
				client.PropagationPolicy(metav1.DeletePropagationBackground))
			switch {
			case client.IgnoreNotFound(err) == nil:
			case apierrors.IsForbidden(err):
				missingPermission = fmt.Errorf("delete %s: %w", object.KeyOf(r), err)
				continue
			case account.IsTemporary(err) && !account.IsUnreadable(r, err):
				return remainingObjects{}, fmt.Errorf("delete %s: %w", object.KeyOf(r), err)
			default:
				left.add(r, fmt.Sprintf(" (cannot be deleted: %s)", account.UnreadableText(r, err)))
				left.isUnresponsive = left.isUnresponsive || apierrors.IsInternalError(err)
				continue
			}
			if o, err = a.Metadata(ctx, r); err != nil {
				return remainingObjects{}, fmt.Errorf("%s: %w", object.KeyOf(r), err)
			}
		}
		// Kubernetes may take long to empty a namespace, so do not wait for its deletion.
		if o == nil || guard.IsNamespace(object.GVKOf(r).GroupKind()) {
			continue
		}
		left.add(r, describeRemaining(o))
	}
	if missingPermission != nil {
		return remainingObjects{}, missingPermission
	}
	return left, nil
}

// mustKeep reports whether the agent must not delete an object, regardless of the module that owns the object.
func (d *deleter) mustKeep(r v1beta2.Resource, o *metav1.PartialObjectMetadata) bool {
	return guard.IsSharedNamespace(object.KeyOf(r), d.planner.namespace) ||
		guard.ProtectionReason(object.KeyOf(r), d.planner.namespace) != "" || render.KeepsOnRemoval(o)
}

// stillHidden handles an object whose kind the API server does not serve. If the API server may still store the object,
// stillHidden adds it to remaining. It does nothing if removed contains the kind's CRD or APIService.
func (d *deleter) stillHidden(
	ctx context.Context, r v1beta2.Resource, removed object.Keys, remaining *remainingObjects,
) error {
	why, err := d.planner.accounts.Own().Hidden(ctx, r, removed)
	if why != "" {
		remaining.add(r, " (may still exist: "+why+")")
	}
	return err
}

// remainingObjects contains the objects that still exist after a deletion, with a message for each.
type remainingObjects struct {
	objects []v1beta2.Resource
	texts   []string
	// isUnresponsive is true if the API server could not call a webhook for one of the objects.
	isUnresponsive bool
}

func (l *remainingObjects) add(r v1beta2.Resource, why string) {
	l.objects, l.texts = append(l.objects, r), append(l.texts, object.KeyOf(r).String()+why)
}

func describeRemaining(o *metav1.PartialObjectMetadata) string {
	if len(o.Finalizers) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it has finalizers: %s)", strings.Join(o.Finalizers, ", "))
}

// retain stops the watches that no Manifest needs. Another client can have removed entries from a status, so retain
// also uses the recorded inventories.
func (d *deleter) retain(ctx context.Context, m *v1beta2.Manifest, needed []v1beta2.Resource) {
	var all v1beta2.ManifestList // shared with the cache, so do not modify it
	if err := d.planner.cached.List(ctx, &all, client.InNamespace(d.planner.namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return // keep all watches; a watch that is not needed does no harm
	}
	needed = slices.Clone(needed)
	for n := range all.Items {
		other := &all.Items[n]
		if other.UID == m.UID {
			continue
		}
		needed = slices.Concat(needed, other.Status.Synced, d.inventories.Missing(other))
		if r, ok := d.planner.defaultCR(other); ok {
			needed = append(needed, r)
		}
	}
	d.watches.Retain(needed)
}

// keepsData returns the reason why an upgrade must not delete an object: the deletion would lose data that belongs to
// users or other modules. It returns "" if the object can be deleted.
func (d *deleter) keepsData(ctx context.Context, m *v1beta2.Manifest, r v1beta2.Resource) (string, error) {
	gk := object.KeyOf(r).GroupKind()
	isClaim := gk == object.ClaimKind || gk == schema.GroupKind{Kind: "PersistentVolume"}
	if !isClaim && !guard.IsCRD(gk) && !guard.IsNamespace(gk) {
		return "", nil
	}
	live, err := d.planner.accounts.Of(m).Metadata(ctx, r)
	if live == nil || err != nil || !live.DeletionTimestamp.IsZero() {
		return "", err
	}
	if !d.planner.mayDelete(m)(live) || live.Annotations[v1beta2.AnnotationDeleteWithData] == v1beta2.True {
		return "", nil
	}
	const text = "%s is no longer part of the module and is kept while it %s: delete it, or set the annotation %s: " +
		"%q on it"
	switch {
	case isClaim:
		return fmt.Sprintf(text, object.KeyOf(r), "may contain data", v1beta2.AnnotationDeleteWithData, v1beta2.True), nil
	case guard.IsNamespace(gk):
		contents, err := d.planner.accounts.Own().Contents(ctx, r.Name)
		if err != nil || len(contents) == 0 {
			return "", err
		}
		return fmt.Sprintf(text, object.KeyOf(r), "contains "+excerpt.FirstFew(contents), v1beta2.AnnotationDeleteWithData,
			v1beta2.True), nil
	}
	inUse, err := d.planner.accounts.Of(m).Instances(ctx, r,
		func(guard.Key, *metav1.PartialObjectMetadata) bool { return false })
	if err != nil || len(inUse) == 0 {
		return "", err
	}
	return fmt.Sprintf("%s is no longer part of the module and is kept while it is in use by %s", object.KeyOf(r),
		excerpt.FirstFew(inUse)), nil
}

// keepNamespaces returns the resources to delete with a module. It does not return namespaces that contain users'
// objects. It removes the agent's labels and annotations from these namespaces.
func (d *deleter) keepNamespaces(
	ctx context.Context, m *v1beta2.Manifest, stage []v1beta2.Resource,
) ([]v1beta2.Resource, error) {
	var empty []v1beta2.Resource
	for _, r := range stage {
		if !guard.IsNamespace(object.KeyOf(r).GroupKind()) || guard.IsSharedNamespace(object.KeyOf(r), d.planner.namespace) {
			empty = append(empty, r)
			continue
		}
		live, err := d.planner.accounts.Of(m).Metadata(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object.KeyOf(r), err)
		}
		if live == nil || !live.DeletionTimestamp.IsZero() ||
			live.Annotations[v1beta2.AnnotationDeleteWithData] == v1beta2.True || !d.planner.mayDelete(m)(live) {
			empty = append(empty, r)
			continue
		}
		contents, err := d.planner.accounts.Own().Contents(ctx, r.Name)
		if err != nil {
			return nil, err
		}
		if len(contents) == 0 {
			empty = append(empty, r)
			continue
		}
		if err := d.planner.accounts.Of(m).Unmark(ctx, live); err != nil {
			return nil, fmt.Errorf("remove the agent's labels and annotations from %s: %w", object.KeyOf(r), err)
		}
		d.events.Eventf(m, nil, "Warning", v1beta2.ReasonDataKept, "Remove", "kept %s because it contains %s",
			object.KeyOf(r), excerpt.FirstFew(contents))
	}
	return empty, nil
}

// userObjects returns the names of users' custom resources that would be deleted with the module's CRDs.
func (d *deleter) userObjects(ctx context.Context, m *v1beta2.Manifest, mine []v1beta2.Resource) ([]string, error) {
	by, synced := d.planner.owner(m), object.KeysOf(m.Status.Synced)
	deletes := d.planner.mayDelete(m)
	defaultCR, _ := d.planner.defaultCR(m)
	ours := func(k guard.Key, o *metav1.PartialObjectMetadata) bool {
		return synced.Has(k) && deletes(o) || k == object.KeyOf(defaultCR) && by.OwnsDefaultCR(o)
	}
	var found []string
	for _, r := range mine {
		if !guard.IsCRD(object.GVKOf(r).GroupKind()) {
			continue
		}
		live, err := d.planner.accounts.Of(m).Metadata(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object.KeyOf(r), err)
		}
		if live != nil && by.BelongsToOther(live) {
			continue // another module has taken over the CRD, so the removal does not delete it
		}
		names, err := d.planner.accounts.Of(m).Instances(ctx, r, ours)
		if err != nil {
			return nil, err
		}
		found = append(found, names...)
	}
	return found, nil
}

// unmanage removes the agent's labels and annotations from the module's objects. It does not delete the objects.
func (d *deleter) unmanage(ctx context.Context, m *v1beta2.Manifest) error {
	a, objects, released := d.planner.accounts.Of(m), m.Status.Synced, d.planner.records.Read(m).Released
	defaultCR, ok := d.planner.defaultCR(m)
	if ok {
		objects = object.Union(objects, []v1beta2.Resource{defaultCR})
	}
	for _, r := range objects {
		o, err := a.Metadata(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", object.KeyOf(r), err)
		}
		if o == nil || !d.planner.owner(m).IsAnnotatedOwner(o) {
			continue
		}
		if released {
			if err := a.GiveBack(ctx, r, d.fieldManager); err != nil {
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
			return fmt.Errorf("remove the agent's labels and annotations from %s: %w", object.KeyOf(r), err)
		}
	}
	return nil
}
