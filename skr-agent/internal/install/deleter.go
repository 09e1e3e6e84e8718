package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/drift"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// deleter deletes objects of modules, and keeps objects with data of users.
type deleter struct {
	planner      *planner
	watches      *drift.Watches
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
	var lacking error
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
				lacking = fmt.Errorf("delete %s: %w", object.KeyOf(r), err)
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
		// Kubernetes may need long to empty a namespace, so do not wait for its deletion.
		if o == nil || guard.IsNamespace(object.GVKOf(r).GroupKind()) {
			continue
		}
		left.add(r, describeRemaining(o))
	}
	if lacking != nil {
		return remainingObjects{}, lacking
	}
	return left, nil
}

// mustKeep reports whether the agent never deletes an object, whichever module it belongs to.
func (d *deleter) mustKeep(r v1beta2.Resource, o *metav1.PartialObjectMetadata) bool {
	return guard.IsSharedNamespace(object.KeyOf(r), d.planner.namespace) ||
		guard.ProtectionReason(object.KeyOf(r), d.planner.namespace) != "" || render.KeepsOnRemoval(o)
}

// stillHidden handles an object whose kind the API server does not serve. If the API server may still store the object,
// stillHidden adds it to remaining. It does nothing if removed contains the CRD or APIService of the kind.
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

// retain stops the watches that no Manifest needs.
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
		needed = append(needed, other.Status.Synced...)
		if r, ok := d.planner.defaultCR(other); ok {
			needed = append(needed, r)
		}
	}
	d.watches.Retain(needed)
}
