// Package takeover is the agent's part of a takeover from Kyma's lifecycle-manager. It recognizes lifecycle-manager's
// objects and fields, adopts its modules, removes its leftovers, and returns its objects. The rest of the agent calls
// it. A bundle decides when a phase begins.
package takeover

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

const namespace = v1beta2.RuntimeNamespace

// all stands for the name of an object where all of a kind are read.
const all = "*"

// Phases records the finished steps of the takeover phases. It must be used from one goroutine.
type Phases struct {
	// Done is the digest of the bundle whose phase is complete: nothing of it is checked again.
	Done string
	// Removed are the leftovers that this process removed.
	Removed []bundle.ObjectRef
}

// Writer writes the objects of a bundle into the runtime.
type Writer struct {
	// Client may read from a cache; Uncached does not.
	Client, Uncached client.Client
	// Try writes an object, with the backoff of its last failure. Failing reports whether a write of the bundle failed.
	Try     func(kind, name, module string, write func() error)
	Failing func() bool
	Patch   func(ctx context.Context, before, after client.Object, kind string) error
	Delete  func(ctx context.Context, object client.Object, kind string) error
	// Definitions returns the CRDs that the agent applies.
	Definitions func() ([]*unstructured.Unstructured, error)
	// Owner is the field manager of the agent's writes, and Owners are all that it has used.
	Owner  string
	Owners []string
}

// Run executes the takeover phase that the bundle sets, in addition to installing the bundle's objects.
func (p *Phases) Run(ctx context.Context, b *bundle.Bundle, w Writer) {
	if phase := b.State.Takeover; phase != bundle.TakeoverClean && phase != bundle.TakeoverRelease ||
		p.Done == b.Digest.String() {
		return
	}
	waiting := false
	if b.State.Takeover == bundle.TakeoverClean {
		p.clean(ctx, w)
	} else if waiting = w.release(ctx); !waiting {
		w.giveBack(ctx)
	}
	if !waiting && !w.Failing() {
		p.Done = b.Digest.String()
	}
}

// clean removes lifecycle-manager's own objects in the runtime, which have the name and the mark of a leftover, and its
// mark on the runtime's Kyma.
func (p *Phases) clean(ctx context.Context, w Writer) {
	for _, leftover := range Leftovers {
		w.Try(leftover.Kind, leftover.Name, "", func() error { return p.removeLeftover(ctx, w, leftover) })
	}
	w.Try("Kyma", v1beta2.RuntimeKymaName, "", func() error {
		kyma := &v1beta2.Kyma{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1beta2.RuntimeKymaName},
			kyma); err != nil {
			return client.IgnoreNotFound(err)
		}
		before := kyma.DeepCopy()
		for _, mark := range marksOf(kyma) {
			delete(kyma.Annotations, mark)
		}
		return w.Patch(ctx, before, kyma, "Kyma")
	})
}

func (p *Phases) removeLeftover(ctx context.Context, w Writer, leftover bundle.ObjectRef) error {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(leftover.GVK())
	err := w.Uncached.Get(ctx, client.ObjectKey{Namespace: leftover.Namespace, Name: leftover.Name}, o)
	if apierrors.IsNotFound(err) || err == nil && !IsLeftover(o) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s, which lifecycle-manager left: %w", leftover, err)
	}
	if o.DeletionTimestamp.IsZero() {
		err = w.Uncached.Delete(ctx, o, client.Preconditions{UID: &o.UID},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove %s, which lifecycle-manager left: %w", leftover, err)
		}
		p.Removed = bundle.SortObjects(append(p.Removed, leftover))
	}
	if len(o.Finalizers) > 0 {
		return fmt.Errorf("%s, which lifecycle-manager left, is being deleted and waits for its finalizers: %v",
			leftover, o.Finalizers)
	}
	return nil
}

// release stops managing all modules, which stay as they are: the installer returns their objects to lifecycle-manager
// before it deletes a Manifest. It reports whether some Manifests still exist.
func (w Writer) release(ctx context.Context) bool {
	var manifests v1beta2.ManifestList
	w.Try("Manifest", all, "", func() error {
		if err := w.Client.List(ctx, &manifests, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list Manifests: %w", err)
		}
		return nil
	})
	for i := range manifests.Items {
		m := &manifests.Items[i]
		w.Try("Manifest", m.Name, m.Module(), func() error {
			before := m.DeepCopy()
			delete(m.Annotations, v1beta2.AnnotationRestoring)
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.AnnotationUnmanaged, v1beta2.True)
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.AnnotationReleased, v1beta2.True)
			if err := w.Patch(ctx, before, m, "Manifest"); err != nil {
				return err
			}
			return w.Delete(ctx, m, "Manifest")
		})
	}
	return len(manifests.Items) > 0
}

// giveBack releases all objects that do not belong to a module. Our fields of the catalog and of definitions become
// lifecycle-manager's, because it removes only its own fields. Our fields of the Kyma get no owner: its spec belongs to
// the user, and lifecycle-manager would remove it with them.
func (w Writer) giveBack(ctx context.Context) {
	for _, kind := range []struct{ name, owner string }{{"ModuleTemplate", "catalog-sync"},
		{"ModuleReleaseMeta", "catalog-sync"}, {"Kyma", ""}} {
		entries := &unstructured.UnstructuredList{}
		entries.SetGroupVersionKind(v1beta2.GroupVersion.WithKind(kind.name + "List"))
		w.Try(kind.name, all, "", func() error {
			if err := w.Uncached.List(ctx, entries, client.InNamespace(namespace)); err != nil {
				return fmt.Errorf("list %ss: %w", kind.name, err)
			}
			return nil
		})
		for i := range entries.Items {
			o := &entries.Items[i]
			w.Try(kind.name, o.GetName(), "", func() error { return w.handFields(ctx, o, kind.owner) })
		}
	}
	crds, err := w.Definitions()
	w.Try("CustomResourceDefinition", all, "", func() error { return err })
	for _, crd := range crds {
		w.Try("CustomResourceDefinition", crd.GetName(), "", func() error {
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(crd.GroupVersionKind())
			if err := w.Uncached.Get(ctx, client.ObjectKeyFromObject(crd), live); err != nil {
				return client.IgnoreNotFound(err)
			}
			return w.handFields(ctx, live, "lifecycle-manager")
		})
	}
}
