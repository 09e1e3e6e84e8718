// Package takeover implements the agent's part of a takeover from lifecycle-manager. It recognizes
// lifecycle-manager's objects and fields, adopts its modules, removes its webhook, and can return modules to
// lifecycle-manager. A bundle starts each phase.
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
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

const namespace = v1beta2.RuntimeNamespace

// allObjects is the object name in a Failure if a kind's objects could not be listed.
const allObjects = "*"

// Phases runs the takeover phases and records which phase is complete. It is not safe for concurrent use.
type Phases struct {
	// CompletedBundle is the digest of the bundle whose takeover phase is complete.
	CompletedBundle string
	// Removed contains lifecycle-manager's objects that this process removed.
	Removed []bundle.ObjectRef
}

// Writer contains the clients and functions that the takeover phases need.
type Writer struct {
	// Client may read from a cache. Uncached must read from the API server.
	Client, Uncached client.Client
	// Records writes the Manifests' signed records.
	Records record.Store
	// Try calls the function write for an object. It does nothing while the object is in backoff after a failed write.
	// HasFailures reports whether any write for the current bundle failed.
	Try         func(kind, name, module string, write func() error)
	HasFailures func() bool
	Patch       func(ctx context.Context, before, after client.Object, kind string) error
	// Unmanage deletes a Manifest so that the installer keeps the module's objects.
	Unmanage func(ctx context.Context, m *v1beta2.Manifest) error
	// Definitions returns the CRDs that the agent applies.
	Definitions func() ([]*unstructured.Unstructured, error)
	// Owner is the agent's field manager. Owners also contains its former field managers.
	Owner  string
	Owners []string
}

// Run executes the bundle's takeover phase.
func (p *Phases) Run(ctx context.Context, b *bundle.Bundle, w Writer) {
	if phase := b.State.Takeover; phase != bundle.TakeoverClean && phase != bundle.TakeoverRelease ||
		p.CompletedBundle == b.Digest.String() {
		return
	}
	waiting := false
	if b.State.Takeover == bundle.TakeoverClean {
		p.removeLeftovers(ctx, w)
	} else if waiting = w.releaseModules(ctx); !waiting {
		w.releaseObjects(ctx)
	}
	if !waiting && !w.HasFailures() {
		p.CompletedBundle = b.Digest.String()
	}
}

// removeLeftovers removes lifecycle-manager's own objects from the runtime. It also removes lifecycle-manager's
// annotations from the runtime's Kyma.
func (p *Phases) removeLeftovers(ctx context.Context, w Writer) {
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
		for _, mark := range kymaAnnotations(kyma) {
			delete(kyma.Annotations, mark)
		}
		return w.Patch(ctx, before, kyma, "Kyma")
	})
}

func (p *Phases) removeLeftover(ctx context.Context, w Writer, leftover bundle.ObjectRef) error {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(leftover.GVK())
	err := w.Uncached.Get(ctx, client.ObjectKey{Namespace: leftover.Namespace, Name: leftover.Name}, o)
	if apierrors.IsNotFound(err) || err == nil && !isLeftover(o) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s of lifecycle-manager: %w", leftover, err)
	}
	if o.DeletionTimestamp.IsZero() {
		err = w.Uncached.Delete(ctx, o, client.Preconditions{UID: &o.UID},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s of lifecycle-manager: %w", leftover, err)
		}
		p.Removed = bundle.SortObjects(append(p.Removed, leftover))
	}
	if len(o.Finalizers) > 0 {
		return fmt.Errorf("%s of lifecycle-manager is being deleted and waits for its finalizers: %v",
			leftover, o.Finalizers)
	}
	return nil
}

// releaseModules makes all modules unmanaged and deletes their Manifests. The installer then returns the modules'
// objects to lifecycle-manager. releaseModules returns true while Manifests exist.
func (w Writer) releaseModules(ctx context.Context) bool {
	var manifests v1beta2.ManifestList
	w.Try("Manifest", allObjects, "", func() error {
		if err := w.Client.List(ctx, &manifests, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list Manifests: %w", err)
		}
		return nil
	})
	for i := range manifests.Items {
		m := &manifests.Items[i]
		w.Try("Manifest", m.Name, m.Module(), func() error {
			before := m.DeepCopy()
			r := w.Records.Read(m)
			r.Restoring, r.Released = false, true
			if err := w.Records.Set(m, r); err != nil {
				return err
			}
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.AnnotationUnmanaged, v1beta2.True)
			if err := w.Patch(ctx, before, m, "Manifest"); err != nil {
				return err
			}
			return w.Unmanage(ctx, m)
		})
	}
	return len(manifests.Items) > 0
}

// releaseObjects makes lifecycle-manager the field manager for the catalog and the CRDs. It removes all field managers
// from the Kyma's fields, so that lifecycle-manager does not remove the user's spec.
func (w Writer) releaseObjects(ctx context.Context) {
	for _, kind := range []struct{ name, owner string }{{"ModuleTemplate", "catalog-sync"},
		{"ModuleReleaseMeta", "catalog-sync"}, {"Kyma", ""}} {
		entries := &unstructured.UnstructuredList{}
		entries.SetGroupVersionKind(v1beta2.GroupVersion.WithKind(kind.name + "List"))
		w.Try(kind.name, allObjects, "", func() error {
			if err := w.Uncached.List(ctx, entries, client.InNamespace(namespace)); err != nil {
				return fmt.Errorf("list %ss: %w", kind.name, err)
			}
			return nil
		})
		for i := range entries.Items {
			o := &entries.Items[i]
			w.Try(kind.name, o.GetName(), "", func() error { return w.transferFields(ctx, o, kind.owner) })
		}
	}
	crds, err := w.Definitions()
	w.Try("CustomResourceDefinition", allObjects, "", func() error { return err })
	for _, crd := range crds {
		w.Try("CustomResourceDefinition", crd.GetName(), "", func() error {
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(crd.GroupVersionKind())
			if err := w.Uncached.Get(ctx, client.ObjectKeyFromObject(crd), live); err != nil {
				return client.IgnoreNotFound(err)
			}
			return w.transferFields(ctx, live, "lifecycle-manager")
		})
	}
}
