package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

const (
	// annotationFields is the annotation with the fingerprint of the agent's fields. The agent adds it only to objects
	// in the caches of its informers, never in the cluster.
	annotationFields = "kyma-pull.dev/fields"
	// annotationAt is the annotation with the time of the agent's last apply. It exists only in the caches of
	// informers.
	annotationAt = "kyma-pull.dev/applied-at"
	// annotationDone is the annotation of a completed Job. It exists only in the caches of informers.
	annotationDone = "kyma-pull.dev/done"
	// settle is the delay of a readiness check. One check then covers many status changes of a starting workload.
	settle = 250 * time.Millisecond
)

// watches reports changes of applied objects. It runs one metadata informer per kind for objects with the label
// managed-by, and keeps the name, owner and fingerprint of each object.
//
// The fingerprint covers the agent's entry in managedFields, which changes if another client changes or removes a
// field of the agent. It shows all drift, also for kinds without a generation.
type watches struct {
	client  metadata.Interface
	mapper  meta.RESTMapper
	manager string // the agent's field manager

	mu    sync.Mutex // guards the fields below
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	kinds map[schema.GroupKind]*kindWatch
	// dirty contains the changed objects of each Manifest, with the resource version of the change. The version is
	// empty for a deletion.
	dirty map[types.NamespacedName]map[guard.Key]string
	// written contains the last apply of each watched object by this process. A change that such an apply caused is not
	// drift.
	written map[guard.Key]writing
	done    map[types.NamespacedName]object.Keys // completed and deleted Jobs by Manifest
}

// writing is the result of one apply request.
type writing struct {
	uid     types.UID
	version string
	own     ownFields
}

type kindWatch struct {
	version string
	started time.Time
	stop    context.CancelFunc
	synced  cache.InformerSynced
	objects cache.Store
	refused atomic.Pointer[apierrors.StatusError] // error of a watch that the API server forbids
	broke   atomic.Int64                          // time of the last failure, in Unix nanoseconds
}

// unsureAfterBreak is the time after a failure of a watch in which the agent treats the watch as outdated.
const unsureAfterBreak = 2 * time.Minute

func newWatches(client metadata.Interface, mapper meta.RESTMapper, manager string) *watches {
	return &watches{
		client: client, mapper: mapper, manager: manager,
		kinds: map[schema.GroupKind]*kindWatch{}, dirty: map[types.NamespacedName]map[guard.Key]string{},
		done: map[types.NamespacedName]object.Keys{}, written: map[guard.Key]writing{},
	}
}

// Start sets the queue for Manifests with changed objects. The manager calls it once, before the first
// reconciliation.
func (w *watches) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.queue = ctx, queue
	return nil
}

// ensure starts the watches for the kinds of the given resources. It does not wait until they run. It reports whether
// all watches have received their first list of objects.
func (w *watches) ensure(resources []v1beta2.Resource) (inPlace bool, err error) {
	inPlace = true
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range resources {
		gvk := object.GVKOf(r)
		watch, ok := w.kinds[gvk.GroupKind()]
		if ok && watch.version != gvk.Version {
			watch.stop()
			ok = false
		}
		if !ok {
			if watch, err = w.start(gvk); err != nil {
				return false, err
			}
			w.kinds[gvk.GroupKind()] = watch
		}
		if watch.synced() {
			continue
		}
		inPlace = false
		if refused := watch.refused.Load(); refused != nil {
			return false, fmt.Errorf("watch %s for drift: %w", gvk.Kind, refused)
		}
	}
	return inPlace, nil
}

// unsynced reports whether a watch has not received its first list of objects within firstListTime.
func (w *watches) unsynced(r v1beta2.Resource) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	watch := w.kinds[object.GVKOf(r).GroupKind()]
	return watch != nil && watch.version == r.Version && !watch.synced() && time.Since(watch.started) > firstListTime
}

const firstListTime = 2 * time.Second

// begin starts the watches of all kinds, so that they fetch their first lists concurrently. It skips the API groups in
// defined, because their CRDs may not exist yet.
func (w *watches) begin(resources []v1beta2.Resource, defined map[string]bool) {
	for _, r := range resources {
		if defined[r.Group] {
			continue
		}
		_, _ = w.ensure([]v1beta2.Resource{r}) // ignore the error, because applying the module reports it
	}
}

// retain stops all watches except those of the needed resources.
func (w *watches) retain(needed []v1beta2.Resource) {
	used := map[schema.GroupKind]bool{}
	for _, r := range needed {
		used[object.GVKOf(r).GroupKind()] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for gk, watch := range w.kinds {
		if !used[gk] {
			watch.stop()
			delete(w.kinds, gk)
		}
	}
	for k := range w.written {
		if !used[k.GroupKind()] {
			delete(w.written, k)
		}
	}
}

// take returns the objects of a Manifest that changed since the last call.
func (w *watches) take(manifest types.NamespacedName) object.Keys {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := object.Keys{}
	for k, version := range w.dirty[manifest] {
		if !w.isOwn(k, version) {
			taken[k] = struct{}{}
		}
	}
	delete(w.dirty, manifest)
	return taken
}

// isOwn reports whether this process wrote the given resource version of an object. The caller must hold mu.
func (w *watches) isOwn(k guard.Key, version string) bool {
	return version != "" && w.written[k].version == version
}

func (w *watches) wrote(k guard.Key, last writing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written[k] = last
}

// forget drops the recorded last apply of an object that was deleted.
func (w *watches) forget(k guard.Key, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written[k].uid == uid {
		delete(w.written, k)
	}
}

// takeCompleted returns the Jobs of a Manifest that completed and were deleted since the last call.
func (w *watches) takeCompleted(manifest types.NamespacedName) object.Keys {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.done[manifest]
	delete(w.done, manifest)
	return taken
}

// completed records that a completed Job was deleted, and queues its Manifest.
func (w *watches) completed(was *metav1.PartialObjectMetadata) {
	if manifest, ok := ownerOf(was); ok {
		w.markCompleted(manifest, object.KeyIn(object.JobKind, was.Namespace, was.Name))
		w.queue.Add(ctrl.Request{NamespacedName: manifest})
	}
}

func (w *watches) markCompleted(manifest types.NamespacedName, k guard.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done[manifest] == nil {
		w.done[manifest] = object.Keys{}
	}
	w.done[manifest][k] = struct{}{}
}

// version returns the resource version of an object in the cache of its watch. It returns "" if the watch does not
// contain the object or may be outdated.
func (w *watches) version(r v1beta2.Resource) string {
	if o, sure := w.object(r); sure && o != nil {
		return o.ResourceVersion
	}
	return ""
}

// object returns an object from the cache of its watch, or nil if the watch does not contain it. sure is false if the
// watch may be outdated.
func (w *watches) object(r v1beta2.Resource) (o *metav1.PartialObjectMetadata, sure bool) {
	w.mu.Lock()
	watch := w.kinds[object.GVKOf(r).GroupKind()]
	w.mu.Unlock()
	if watch == nil || watch.version != r.Version || !watch.synced() ||
		time.Since(time.Unix(0, watch.broke.Load())) < unsureAfterBreak {
		return nil, false
	}
	shown, there, err := watch.objects.GetByKey(cache.NewObjectName(r.Namespace, r.Name).String())
	if err != nil {
		return nil, false
	}
	o, _ = shown.(*metav1.PartialObjectMetadata)
	return o, !there || o != nil
}

// shown returns the agent's fields in a watched object. If this process applied the object and the watch does not show
// the result yet, shown returns the fields after the apply. sure is false if the watch may be outdated.
func (w *watches) shown(r v1beta2.Resource) (own ownFields, sure bool) {
	o, sure := w.object(r)
	if o == nil {
		return ownFields{}, sure
	}
	own = ownFields{o.Annotations[annotationFields], o.Annotations[annotationAt]}
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.written[object.KeyOf(r)]; last.uid == o.UID && last.own.at > own.at {
		own = last.own
	}
	return own, sure
}

// isMarked reports whether the annotation owned-by of a watched object has the given value.
func (w *watches) isMarked(r v1beta2.Resource, mark string) bool {
	o, sure := w.object(r)
	return sure && o != nil && o.Annotations[v1beta2.AnnotationOwnedBy] == mark
}

// awaitChange waits a short time until the watch shows another resource version of an object than the given version.
func (w *watches) awaitChange(ctx context.Context, r v1beta2.Resource, version string) {
	const step, longest, quiet = 10 * time.Millisecond, 300 * time.Millisecond, 40 * time.Millisecond
	for waited := time.Duration(0); waited < longest && sleep(ctx, step); waited += step {
		if now := w.version(r); now != "" && now != version {
			sleep(ctx, quiet)
			return
		}
	}
}

// giveBack records objects as changed again, because the caller could not correct their drift.
func (w *watches) giveBack(manifest types.NamespacedName, changed object.Keys) {
	for k := range changed {
		w.markDirty(manifest, k, "")
	}
}

// markDirty records a change of an object by another client. It returns false without a record if this process made the
// change.
func (w *watches) markDirty(manifest types.NamespacedName, k guard.Key, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isOwn(k, version) {
		return false
	}
	if w.dirty[manifest] == nil {
		w.dirty[manifest] = map[guard.Key]string{}
	}
	w.dirty[manifest][k] = version
	return true
}

func (w *watches) start(gvk schema.GroupVersionKind) (*kindWatch, error) {
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
		version: gvk.Version,
		started: time.Now(),
		stop:    stop,
		synced:  informer.HasSynced,
		objects: informer.GetStore(),
	}
	err = informer.SetTransform(w.shrink)
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(watch.failed)
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

// failed handles errors of an informer. It does not log the expected errors: those for a CRD that is being deleted or
// restored, and those for a missing permission.
func (w *kindWatch) failed(ctx context.Context, r *cache.Reflector, err error) {
	w.broke.Store(time.Now().UnixNano())
	var refused *apierrors.StatusError
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		log.FromContext(ctx).V(1).Info("kind is no longer served", "error", err.Error())
	case apierrors.IsForbidden(err) && !w.synced() && errors.As(err, &refused):
		w.refused.Store(refused)
	default:
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// shrink drops the parts of an object that drift detection does not need, before the informer caches it.
func (w *watches) shrink(in any) (any, error) {
	o, ok := in.(*metav1.PartialObjectMetadata)
	if !ok {
		return in, nil
	}
	if _, done := o.Annotations[annotationFields]; done {
		return o, nil
	}
	own := ownFieldsOf(o.ManagedFields, w.manager)
	o.Annotations = map[string]string{
		v1beta2.AnnotationOwnedBy: o.Annotations[v1beta2.AnnotationOwnedBy],
		annotationFields:          own.fields,
		annotationAt:              own.at,
	}
	if hasCompleted(o.ManagedFields) {
		o.Annotations[annotationDone] = v1beta2.True
	}
	o.ManagedFields, o.OwnerReferences, o.Finalizers, o.Labels = nil, nil, nil, nil
	return o, nil
}

// hasCompleted reports whether the status of a Job has a completion time, which only a successful Job has.
func hasCompleted(entries []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status" && e.FieldsV1 != nil &&
			bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:completionTime"`))
	})
}

func (w *watches) handler(gk schema.GroupKind) cache.ResourceEventHandler {
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
				w.changed(gk, was, is)
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
				w.completed(was)
			default:
				w.changed(gk, was, nil)
			}
		},
	}
}

// changed queues the Manifest that owns a changed object for a drift correction. If this process made the change, it
// requests only a readiness check. now is nil if the object was deleted.
func (w *watches) changed(gk schema.GroupKind, before, now *metav1.PartialObjectMetadata) {
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

// requestCheck requests a readiness check of the Manifest that owns an object.
func (w *watches) requestCheck(obj any) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		if manifest, ok := ownerOf(o); ok {
			w.queue.AddAfter(ctrl.Request{NamespacedName: manifest}, settle)
		}
	}
}

func ownerOf(o *metav1.PartialObjectMetadata) (types.NamespacedName, bool) {
	namespace, name, ok := strings.Cut(o.Annotations[v1beta2.AnnotationOwnedBy], "/")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok && name != ""
}
