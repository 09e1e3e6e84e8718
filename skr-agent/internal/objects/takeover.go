package objects

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// takeover is what was done for the phase of a takeover.
type takeover struct {
	// done is the bundle whose phase was done whole: nothing of it is looked at again.
	done string
	// removed are the leftovers that this process removed.
	removed []bundle.ObjectRef
}

// takeOver does what the phase asks for beside the objects of a bundle.
func (s *Syncer) takeOver(ctx context.Context, b *bundle.Bundle) {
	if phase := b.State.Takeover; phase != bundle.TakeoverClean && phase != bundle.TakeoverRelease || s.takeover.done == b.Digest.String() {
		return
	}
	waiting := false
	if b.State.Takeover == bundle.TakeoverClean {
		s.clean(ctx)
	} else if waiting = s.release(ctx); !waiting {
		s.giveBack(ctx)
	}
	if !waiting && !s.attempts.failing() {
		s.takeover.done = b.Digest.String()
	}
}

// clean removes what lifecycle-manager itself has in the runtime: objects that have both the name and the mark of one
// of its own, and its mark on the runtime's Kyma.
func (s *Syncer) clean(ctx context.Context) {
	for _, leftover := range leftovers {
		s.attempts.try(leftover.Kind, leftover.Name, "", func() error { return s.removeLeftover(ctx, leftover) })
	}
	s.attempts.try("Kyma", v1beta2.RuntimeKymaName, "", func() error {
		kyma := &v1beta2.Kyma{}
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1beta2.RuntimeKymaName}, kyma); err != nil {
			return client.IgnoreNotFound(err)
		}
		before := kyma.DeepCopy()
		for _, mark := range marksOf(kyma) {
			delete(kyma.Annotations, mark)
		}
		return s.patch(ctx, before, kyma, "Kyma")
	})
}

func (s *Syncer) removeLeftover(ctx context.Context, leftover bundle.ObjectRef) error {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(leftover.GVK())
	err := s.Uncached.Get(ctx, client.ObjectKey{Namespace: leftover.Namespace, Name: leftover.Name}, o)
	if apierrors.IsNotFound(err) || err == nil && !isLeftover(o) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s, which lifecycle-manager left: %w", leftover, err)
	}
	if o.DeletionTimestamp.IsZero() {
		err = s.Uncached.Delete(ctx, o, client.Preconditions{UID: &o.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove %s, which lifecycle-manager left: %w", leftover, err)
		}
		s.takeover.removed = bundle.SortObjects(append(s.takeover.removed, leftover))
	}
	if len(o.Finalizers) > 0 {
		return fmt.Errorf("%s, which lifecycle-manager left, is being deleted and waits for its finalizers: %v", leftover, o.Finalizers)
	}
	return nil
}

// release lets go of all modules, which stay as they are: the installer gives their objects back before a Manifest
// goes. It reports whether some are not gone yet.
func (s *Syncer) release(ctx context.Context) bool {
	var manifests v1beta2.ManifestList
	s.attempts.try("Manifest", all, "", func() error { return s.list(ctx, &manifests, "Manifests") })
	for i := range manifests.Items {
		m := &manifests.Items[i]
		s.attempts.try("Manifest", m.Name, m.Module(), func() error {
			before := m.DeepCopy()
			delete(m.Annotations, v1beta2.AnnotationRestoring)
			m.Annotations = with(m.Annotations, map[string]string{v1beta2.AnnotationUnmanaged: v1beta2.True, v1beta2.AnnotationReleased: v1beta2.True})
			if err := s.patch(ctx, before, m, "Manifest"); err != nil {
				return err
			}
			return s.delete(ctx, m, "Manifest")
		})
	}
	return len(manifests.Items) > 0
}

// giveBack lets go of what is not a module's. Fields of the catalog and of definitions that are ours alone become
// lifecycle-manager's, for it removes only fields that are its own. Those of the Kyma become nobody's: its spec is its
// user's, and would go with them.
func (s *Syncer) giveBack(ctx context.Context) {
	for _, kind := range []struct{ name, owner string }{{"ModuleTemplate", "catalog-sync"}, {"ModuleReleaseMeta", "catalog-sync"}, {"Kyma", ""}} {
		entries := &unstructured.UnstructuredList{}
		entries.SetGroupVersionKind(v1beta2.GroupVersion.WithKind(kind.name + "List"))
		s.attempts.try(kind.name, all, "", func() error {
			if err := s.Uncached.List(ctx, entries, client.InNamespace(namespace)); err != nil {
				return fmt.Errorf("list %ss: %w", kind.name, err)
			}
			return nil
		})
		for i := range entries.Items {
			o := &entries.Items[i]
			s.attempts.try(kind.name, o.GetName(), "", func() error { return handFields(ctx, s.Uncached, o, kind.owner) })
		}
	}
	crds, err := definitions()
	s.attempts.try("CustomResourceDefinition", all, "", func() error { return err })
	for _, crd := range crds {
		s.attempts.try("CustomResourceDefinition", crd.GetName(), "", func() error {
			live, err := read(ctx, s.Uncached, crd)
			if live == nil || err != nil {
				return err
			}
			return handFields(ctx, s.Uncached, live, "lifecycle-manager")
		})
	}
}

// handFields makes another manager the owner of the fields of an object that are ours, or nobody where that is empty.
func handFields(ctx context.Context, uncached client.Client, o *unstructured.Unstructured, to string) error {
	return moveFields(ctx, uncached, o, FieldManagers([]string{FieldOwner, defaultOwner}), to)
}

// moveFields makes another manager the owner of the fields of an object that some managers have, or nobody where that
// is empty. The object is as it was read: one that changed since is tried again.
func moveFields(
	ctx context.Context,
	uncached client.Client,
	o *unstructured.Unstructured,
	from []FieldManager,
	to string,
) error {
	entries := RemoveFieldManagers(o.GetManagedFields(), from)
	if to != "" {
		var err error
		if entries, err = ReplaceFieldManagers(o.GetManagedFields(), from, to); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	before := o.DeepCopy()
	o.SetManagedFields(entries)
	err := uncached.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("change the owner of fields of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}
