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

// Watched selects the objects to watch: one object, or all objects of a resource in a namespace.
type Watched struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	// Name selects one object. If empty, all objects are selected.
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

// WatchChanges calls changed with the metadata for each created, changed or deleted object until the context ends. It
// ignores status changes to objects with a generation.
//
// If the API server forbids the watch, WatchChanges logs this once and retries. Callers must therefore also check for
// changes periodically.
func WatchChanges(
	ctx context.Context, client metadata.Interface, what Watched,
	changed func(object *metav1.PartialObjectMetadata, deleted bool),
) error {
	named := func(o *metav1.ListOptions) {
		if what.Name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, what.Name).String()
		}
	}
	informer := metadatainformer.NewFilteredMetadataInformer(client, what.Resource, what.Namespace, 0, cache.Indexers{},
		named).
		Informer()
	refused := &refusedWatch{what: what}
	if err := informer.SetWatchErrorHandlerWithContext(refused.failed); err != nil {
		return fmt.Errorf("watch %s: %w", what, err)
	}
	if err := informer.SetTransform(withoutFields); err != nil {
		return fmt.Errorf("watch %s: %w", what, err)
	}
	if _, err := informer.AddEventHandler(changeHandler(changed)); err != nil {
		return fmt.Errorf("watch %s: %w", what, err)
	}
	go informer.RunWithContext(ctx)
	return nil
}

// withoutFields removes managedFields to save memory.
func withoutFields(in any) (any, error) {
	if o, ok := in.(*metav1.PartialObjectMetadata); ok {
		o.ManagedFields = nil
	}
	return in, nil
}

func changeHandler(changed func(*metav1.PartialObjectMetadata, bool)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if o, ok := obj.(*metav1.PartialObjectMetadata); ok && !initial {
				changed(o, false)
			}
		},
		UpdateFunc: func(before, after any) {
			was, _ := before.(*metav1.PartialObjectMetadata)
			is, _ := after.(*metav1.PartialObjectMetadata)
			if was != nil && is != nil && isChanged(was, is) {
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

// isChanged reports whether an object changed. It ignores status changes to objects with a generation.
func isChanged(before, after *metav1.PartialObjectMetadata) bool {
	if before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() {
		return true
	}
	if after.Generation != 0 {
		return before.Generation != after.Generation
	}
	return before.ResourceVersion != after.ResourceVersion
}

type refusedWatch struct {
	what Watched
	once sync.Once
}

func (r *refusedWatch) failed(ctx context.Context, reflector *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		return
	}
	r.once.Do(func() {
		log.FromContext(ctx).
			Info("no permission to watch, checking periodically instead", "objects", r.what.String(), "error",
				err.Error())
	})
}
