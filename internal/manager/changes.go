package manager

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Watched is what a program needs and others can take away: one object, or all of a namespace.
type Watched struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for objects without one.
	Namespace string
	// Name is that of the one object, empty for all. Rights that name the object are enough to watch it.
	Name string
}

func (w Watched) String() string {
	name := w.Resource.Resource
	if w.Name != "" {
		name += " " + w.Name
	}
	if w.Namespace != "" {
		name += " in " + w.Namespace
	}
	return name
}

// WatchChanges calls changed with the metadata of each object that is deleted, replaced or changed, and with that of a new one, until the
// context ends. What is there when it begins is no change, and neither is a new status of an object with a generation.
//
// It watches metadata only. A watch that the API server does not allow is said once and tried again: what is watched has to be looked at
// by the clock as well.
func WatchChanges(
	ctx context.Context, client metadata.Interface, what Watched, changed func(object *metav1.PartialObjectMetadata, deleted bool),
) error {
	named := func(o *metav1.ListOptions) {
		if what.Name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, what.Name).String()
		}
	}
	informer := metadatainformer.NewFilteredMetadataInformer(client, what.Resource, what.Namespace, 0, cache.Indexers{}, named).Informer()
	refused := &refusedWatch{what: what}
	if err := informer.SetWatchErrorHandlerWithContext(refused.failed); err != nil {
		return fmt.Errorf("watch %s: %w", what, err)
	}
	if err := informer.SetTransform(withoutFields); err != nil {
		return fmt.Errorf("watch %s: %w", what, err)
	}
	if _, err := informer.AddEventHandler(changes(changed)); err != nil {
		return fmt.Errorf("watch %s: %w", what, err)
	}
	go informer.RunWithContext(ctx)
	return nil
}

// withoutFields drops what is large and tells nothing.
func withoutFields(in any) (any, error) {
	if o, ok := in.(*metav1.PartialObjectMetadata); ok {
		o.ManagedFields = nil
	}
	return in, nil
}

func changes(changed func(*metav1.PartialObjectMetadata, bool)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if o, ok := obj.(*metav1.PartialObjectMetadata); ok && !initial {
				changed(o, false)
			}
		},
		UpdateFunc: func(before, after any) {
			was, _ := before.(*metav1.PartialObjectMetadata)
			is, _ := after.(*metav1.PartialObjectMetadata)
			if was != nil && is != nil && differs(was, is) {
				changed(is, false)
			}
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
				changed(o, true)
			}
		},
	}
}

// differs reports whether an object is another than before. Where the API server counts changes of what is asked for, its status does
// not matter.
func differs(was, is *metav1.PartialObjectMetadata) bool {
	if was.UID != is.UID || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() {
		return true
	}
	if is.Generation != 0 {
		return was.Generation != is.Generation
	}
	return was.ResourceVersion != is.ResourceVersion
}

// refusedWatch says once that a watch is not allowed.
type refusedWatch struct {
	what Watched
	said sync.Once
}

func (r *refusedWatch) failed(ctx context.Context, reflector *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		return
	}
	r.said.Do(func() {
		log.FromContext(ctx).Info("may not watch what it needs, and looks at it from time to time only", "of", r.what.String(), "error", err.Error())
	})
}
