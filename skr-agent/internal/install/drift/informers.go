package drift

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

func (w *Watches) start(gvk schema.GroupVersionKind) (*kindWatch, error) {
	mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	informer := metadatainformer.NewFilteredMetadataInformer(w.client, mapping.Resource, metav1.NamespaceAll, 0,
		cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = v1beta2.LabelManagedBy + "=" + v1beta2.ManagedByKyma }).
		Informer()
	ctx, stop := context.WithCancel(w.ctx)
	watch := &kindWatch{
		Version: gvk.Version,
		started: time.Now(),
		stop:    stop,
		synced:  informer.HasSynced,
		objects: informer.GetStore(),
	}
	err = informer.SetTransform(w.shrink)
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			if watch.handleError(ctx, r, err) {
				w.markUnserved(gvk.GroupKind(), watch)
			}
		})
	}
	if err == nil {
		_, err = informer.AddEventHandler(w.handler(gvk.GroupKind()))
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	go informer.RunWithContext(ctx)
	return watch, nil
}

// markUnserved records all of a watch's objects as changed. Their Manifests then report that the version is not served.
func (w *Watches) markUnserved(gk schema.GroupKind, watch *kindWatch) {
	for _, obj := range watch.objects.List() {
		if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
			w.queueChange(gk, o, nil)
		}
	}
}

// shrink keeps only the parts of an object that drift detection needs, before the informer caches the object. Any
// client can create objects with the label managed-by and many annotations, so shrink copies only the annotation with a
// valid owner.
func (w *Watches) shrink(in any) (any, error) {
	o, ok := in.(*metav1.PartialObjectMetadata)
	if !ok {
		return in, nil
	}
	if len(o.Labels) == 0 { // already shrunk: objects from the API server have the label managed-by
		return o, nil
	}
	own := FieldsOf(o.ManagedFields, w.manager)
	kept := map[string]string{annotationFields: own.fields, annotationAt: own.At}
	if _, ok := ownerOf(o); ok {
		kept[v1beta2.AnnotationOwnedBy] = o.Annotations[v1beta2.AnnotationOwnedBy]
	}
	if hasCompleted(o.ManagedFields) {
		kept[annotationDone] = v1beta2.True
	}
	o.ObjectMeta = metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Annotations: kept,
	}
	return o, nil
}

// hasCompleted reports whether a Job's status has a completion time, which only a successful Job has.
func hasCompleted(entries []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status" && e.FieldsV1 != nil &&
			bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:completionTime"`))
	})
}

func (w *Watches) handler(gk schema.GroupKind) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial {
				w.requestCheck(obj)
			}
		},
		UpdateFunc: func(before, after any) {
			was, _ := before.(*metav1.PartialObjectMetadata)
			is, _ := after.(*metav1.PartialObjectMetadata)
			switch {
			case was == nil || is == nil || was.ResourceVersion == is.ResourceVersion:
			case was.Annotations[annotationFields] != is.Annotations[annotationFields],
				was.Annotations[annotationAt] != is.Annotations[annotationAt]: // the agent's field manager wrote it
				w.queueChange(gk, was, is)
			default:
				w.requestCheck(is)
			}
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			was, ok := obj.(*metav1.PartialObjectMetadata)
			if !ok {
				return
			}
			w.forget(object.KeyIn(gk, was.Namespace, was.Name), was.UID)
			switch {
			case gk == object.JobKind && was.Annotations[annotationDone] != "":
				w.queueCompletion(was)
			default:
				w.queueChange(gk, was, nil)
			}
		},
	}
}

// queueChange queues a drift correction for the Manifest that owns a changed object. If this process made the change,
// queueChange requests only a readiness check. now is nil if the object was deleted.
func (w *Watches) queueChange(gk schema.GroupKind, before, now *metav1.PartialObjectMetadata) {
	manifest, ok := ownerOf(before)
	if !ok {
		return
	}
	k, version := object.KeyIn(gk, before.Namespace, before.Name), ""
	if now != nil {
		version = now.ResourceVersion
	}
	if w.markDirty(manifest, k, version) {
		w.queue.Add(ctrl.Request{NamespacedName: manifest})
		return
	}
	w.requestCheck(now)
}

// requestCheck requests a readiness check for the Manifest that owns an object.
func (w *Watches) requestCheck(obj any) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		if manifest, ok := ownerOf(o); ok {
			w.queue.AddAfter(ctrl.Request{NamespacedName: manifest}, settleDelay)
		}
	}
}

// ownerOf returns the Manifest in an object's annotation owned-by. It returns false for an invalid value. Only other
// clients write invalid values: all Manifests are in one namespace, and their names have a limited length.
func ownerOf(o *metav1.PartialObjectMetadata) (types.NamespacedName, bool) {
	namespace, name, _ := strings.Cut(o.Annotations[v1beta2.AnnotationOwnedBy], "/")
	valid := namespace == v1beta2.RuntimeNamespace && name != "" &&
		len(name) <= validation.DNS1123SubdomainMaxLength
	return types.NamespacedName{Namespace: namespace, Name: name}, valid
}

// queueCompletion records that a completed Job was deleted, and queues its Manifest.
func (w *Watches) queueCompletion(was *metav1.PartialObjectMetadata) {
	if manifest, ok := ownerOf(was); ok {
		w.MarkCompleted(manifest, object.KeyIn(object.JobKind, was.Namespace, was.Name), was.UID)
		w.queue.Add(ctrl.Request{NamespacedName: manifest})
	}
}
