// Package drift watches all modules' applied objects and reports the objects that another client changed.
//
// Its input is the kinds to watch, and the API server's response to each of this process's apply requests. Its output
// is each Manifest's changed objects, and requests to reconcile the Manifest. It reads only metadata and does not
// write.
package drift

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

const (
	// annotationFields is the annotation with the fingerprint of the agent's fields. The agent adds it only to objects
	// in its informers' caches, never in the cluster.
	annotationFields = "kyma-pull.dev/fields"
	// annotationAt is the annotation with the time of the agent's last apply. It exists only in informer caches.
	annotationAt = "kyma-pull.dev/applied-at"
	// annotationDone is the annotation on a completed Job. It exists only in informer caches.
	annotationDone = "kyma-pull.dev/done"
	// settleDelay is how long a readiness check is delayed after a change to an object. One check then covers many
	// status changes while a workload starts.
	settleDelay = 250 * time.Millisecond
)

// Watches reports changes to applied objects. It runs one metadata informer per kind for objects with the label
// managed-by, and keeps each object's name, owner and fingerprint.
//
// The fingerprint covers the agent's entry in managedFields. This entry changes if another client changes or removes
// one of the agent's fields. The fingerprint therefore shows all drift, even for kinds without a generation.
type Watches struct {
	client  metadata.Interface
	mapper  meta.RESTMapper
	manager string // the agent's field manager

	mu    sync.Mutex // guards the fields below
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	kinds map[schema.GroupKind]*kindWatch
	// changedObjects contains each Manifest's changed objects, with the change's resource version. The version is empty
	// for a deletion.
	changedObjects map[types.NamespacedName]map[guard.Key]string
	// ownApplies contains this process's last apply request for each watched object. A change that such an apply caused
	// is not drift.
	ownApplies map[guard.Key]appliedState
	done       map[types.NamespacedName]map[guard.Key]types.UID // completed and deleted Jobs by Manifest
}

// appliedState is the state of an object after this process applied it.
type appliedState struct {
	uid     types.UID
	Version string
	own     Fields
}

// New returns watches that do not run until Start is called.
func New(client metadata.Interface, mapper meta.RESTMapper, manager string) *Watches {
	return &Watches{
		client: client, mapper: mapper, manager: manager,
		kinds: map[schema.GroupKind]*kindWatch{}, changedObjects: map[types.NamespacedName]map[guard.Key]string{},
		done: map[types.NamespacedName]map[guard.Key]types.UID{}, ownApplies: map[guard.Key]appliedState{},
	}
}

// Start sets the queue for Manifests with changed objects. The manager calls it once, before the first
// reconciliation.
func (w *Watches) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.queue = ctx, queue
	return nil
}

// ensure starts the watches for the kinds of the resources. It does not wait until they run. It reports whether all
// watches have received their first list of objects.
func (w *Watches) ensure(resources []v1beta2.Resource) (inPlace bool, err error) {
	inPlace = true
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range resources {
		gvk := object.GVKOf(r)
		watch, ok := w.kinds[gvk.GroupKind()]
		if ok && watch.Version != gvk.Version {
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

// Unsynced reports whether the watch for r has been running for longer than firstListTime and has not received its
// first list of objects.
func (w *Watches) Unsynced(r v1beta2.Resource) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	watch := w.kinds[object.GVKOf(r).GroupKind()]
	return watch != nil && watch.Version == r.Version && !watch.synced() && time.Since(watch.started) > firstListTime
}

const firstListTime = 2 * time.Second

// StartAll starts the watches for all kinds, so that they fetch their first lists concurrently. It skips the API groups
// in defined, because their CRDs may not exist yet.
func (w *Watches) StartAll(resources []v1beta2.Resource, defined map[string]bool) {
	for _, r := range resources {
		if defined[r.Group] {
			continue
		}
		_, _ = w.ensure([]v1beta2.Resource{r}) // ignore the error, because applying the module reports it
	}
}

// Retain stops all watches except the needed resources' watches.
func (w *Watches) Retain(needed []v1beta2.Resource) {
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
	for k := range w.ownApplies {
		if !used[k.GroupKind()] {
			delete(w.ownApplies, k)
		}
	}
}

// TakeChanged returns a Manifest's objects that changed since the last call.
func (w *Watches) TakeChanged(manifest types.NamespacedName) object.Keys {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := object.Keys{}
	for k, version := range w.changedObjects[manifest] {
		if !w.isOwn(k, version) {
			taken[k] = struct{}{}
		}
	}
	delete(w.changedObjects, manifest)
	return taken
}

// isOwn reports whether this process wrote a resource version of an object. The caller must hold mu.
func (w *Watches) isOwn(k guard.Key, version string) bool {
	return version != "" && w.ownApplies[k].Version == version
}

// RecordApply records the API server's response to an apply. It returns the agent's fields in the applied object.
func (w *Watches) RecordApply(k guard.Key, live *unstructured.Unstructured) Fields {
	own := FieldsOf(live.GetManagedFields(), w.manager)
	w.recordApply(k, appliedState{live.GetUID(), live.GetResourceVersion(), own})
	return own
}

// recordApply records this process's last apply request for an object.
func (w *Watches) recordApply(k guard.Key, last appliedState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ownApplies[k] = last
}

// forget drops the record of the last apply request for a deleted object.
func (w *Watches) forget(k guard.Key, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ownApplies[k].uid == uid {
		delete(w.ownApplies, k)
	}
}

// TakeCompleted returns a Manifest's Jobs that completed and were deleted since the last call, with their UIDs.
func (w *Watches) TakeCompleted(manifest types.NamespacedName) map[guard.Key]types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.done[manifest]
	delete(w.done, manifest)
	return taken
}

// MarkCompleted records a Job that completed and was deleted. TakeCompleted returns it.
func (w *Watches) MarkCompleted(manifest types.NamespacedName, k guard.Key, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done[manifest] == nil {
		w.done[manifest] = map[guard.Key]types.UID{}
	}
	w.done[manifest][k] = uid
}

// Version returns an object's resource version in its watch's cache. It returns "" if the watch does not contain the
// object or may be outdated.
func (w *Watches) Version(r v1beta2.Resource) string {
	if o, sure := w.object(r); sure && o != nil {
		return o.ResourceVersion
	}
	return ""
}

// object returns an object from its watch's cache, or nil if the watch does not contain it. sure is false if the watch
// may be outdated.
func (w *Watches) object(r v1beta2.Resource) (o *metav1.PartialObjectMetadata, sure bool) {
	w.mu.Lock()
	watch := w.kinds[object.GVKOf(r).GroupKind()]
	w.mu.Unlock()
	if watch == nil || watch.Version != r.Version || !watch.synced() ||
		time.Since(time.Unix(0, watch.lastFailure.Load())) < outdatedAfterFailure {
		return nil, false
	}
	shown, there, err := watch.objects.GetByKey(cache.NewObjectName(r.Namespace, r.Name).String())
	if err != nil {
		return nil, false
	}
	o, _ = shown.(*metav1.PartialObjectMetadata)
	return o, !there || o != nil
}

// AppliedFields returns the agent's fields in a watched object. If this process applied the object and the watch does
// not show the result yet, it returns the fields after the apply. sure is false if the watch may be outdated.
func (w *Watches) AppliedFields(r v1beta2.Resource) (own Fields, sure bool) {
	o, sure := w.object(r)
	if o == nil {
		return Fields{}, sure
	}
	own = Fields{o.Annotations[annotationFields], o.Annotations[annotationAt]}
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.ownApplies[object.KeyOf(r)]; last.uid == o.UID && last.own.At > own.At {
		own = last.own
	}
	return own, sure
}

// IsMarked reports whether the annotation owned-by on a watched object has the value mark.
func (w *Watches) IsMarked(r v1beta2.Resource, mark string) bool {
	o, sure := w.object(r)
	return sure && o != nil && o.Annotations[v1beta2.AnnotationOwnedBy] == mark
}

// Restore records objects as changed again, because the caller could not correct their drift.
func (w *Watches) Restore(manifest types.NamespacedName, changed object.Keys) {
	for k := range changed {
		w.markDirty(manifest, k, "")
	}
}

// markDirty records a change to an object by another client. If this process made the change, markDirty does not record
// it and returns false.
func (w *Watches) markDirty(manifest types.NamespacedName, k guard.Key, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isOwn(k, version) {
		return false
	}
	if w.changedObjects[manifest] == nil {
		w.changedObjects[manifest] = map[guard.Key]string{}
	}
	w.changedObjects[manifest][k] = version
	return true
}
