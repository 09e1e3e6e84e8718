package drift

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

func TestApplyIsRecordedByObjectUID(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	seen := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "apps", Name: "web", UID: "second", ResourceVersion: "9",
		Annotations: map[string]string{annotationFields: "others", annotationAt: "1"},
	}}
	if err := store.Add(seen); err != nil {
		t.Fatal(err)
	}
	deployment := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	w := New(nil, nil, "agent")
	w.kinds[deployment] = &kindWatch{Version: "v1", objects: store, synced: func() bool { return true }}
	k := object.KeyIn(deployment, "apps", "web")
	w.recordApply(k, appliedState{"first", "7", Fields{"ours", "2"}})
	web := v1beta2.Resource{
		Name: "web", Namespace: "apps",
		GroupVersionKind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
	}
	if own, sure := w.AppliedFields(web); !sure || own.fields != "others" {
		t.Errorf("another object with the same name: got %+v, sure %t, want the fields in the watch", own, sure)
	}
	w.recordApply(k, appliedState{"second", "9", Fields{"ours", "2"}})
	if own, _ := w.AppliedFields(web); own.fields != "ours" {
		t.Errorf("applied object: got %+v, want the fields after the apply", own)
	}
	before := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web", UID: "first"}}
	w.handler(deployment).OnDelete(before)
	if !w.isOwn(k, "9") {
		t.Error("the deletion of a previous object must not drop the record")
	}
	w.handler(deployment).OnDelete(seen)
	if w.isOwn(k, "9") {
		t.Error("the deletion of the object must drop the record")
	}
}

func TestTenantCannotFillTheWatchCache(t *testing.T) {
	w := New(nil, nil, "agent")
	long := strings.Repeat("a", 250<<10)
	for name, annotations := range map[string]map[string]string{
		"long owner":                 {v1beta2.AnnotationOwnedBy: "kyma-system/" + long},
		"annotations of the cache":   {annotationFields: long, annotationAt: long, annotationDone: long},
		"another long annotation":    {"example.org/note": long},
		"owner in another namespace": {v1beta2.AnnotationOwnedBy: "theirs/" + strings.Repeat("a", 253)},
		"owner with an empty name":   {v1beta2.AnnotationOwnedBy: "kyma-system/"},
	} {
		t.Run(name, func(t *testing.T) {
			hostile := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "theirs", Name: strings.Repeat("n", 253), UID: "5a9bd3c4-52c4-4b0e-9d20-8a4b4b7a1d10",
				ResourceVersion: "12345678", Annotations: annotations,
				Labels:        map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma},
				Finalizers:    []string{"example.org/" + long},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: long}},
			}}
			kept, err := w.shrink(hostile)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(kept)
			if err != nil {
				t.Fatal(err)
			}
			if len(raw) > 1<<10 {
				t.Errorf("the cached object is %d bytes, want at most 1 KiB", len(raw))
			}
			o, _ := kept.(*metav1.PartialObjectMetadata)
			if manifest, ok := ownerOf(o); ok || o.Annotations[v1beta2.AnnotationOwnedBy] != "" {
				t.Errorf("got owner %s, want none, because it cannot be a Manifest", manifest)
			}
			again, err := w.shrink(o)
			if err != nil || again != kept || !reflect.DeepEqual(o.Annotations, map[string]string{
				annotationFields: FieldsOf(nil, "").fields, annotationAt: "",
			}) {
				t.Errorf("the cached object must not change again: got %+v, error %v", o.Annotations, err)
			}
		})
	}
	own := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Labels: map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma},
		Annotations: map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/" + strings.Repeat("a", 253)},
	}}
	if _, err := w.shrink(own); err != nil {
		t.Fatal(err)
	}
	if _, ok := ownerOf(own); !ok {
		t.Error("an owner with the longest valid name must stay")
	}
}

func TestAPIVersionCountsAsUnservedAfterRepeatedFailures(t *testing.T) {
	absent := apierrors.NewNotFound(schema.GroupResource{Resource: "webs"}, "")
	other := errors.New("connection refused")
	now := time.Now()
	watch := &kindWatch{}
	for n, step := range []struct {
		err   error
		after time.Duration
		want  bool
	}{
		{absent, time.Second, false}, {absent, time.Second, false}, {other, time.Second, false},
		{absent, time.Second, false}, {absent, time.Second, false}, {absent, time.Second, true},
		{absent, time.Second, false}, {absent, outdatedAfterFailure + time.Second, false},
		{absent, time.Second, false}, {absent, time.Second, true},
	} {
		now = now.Add(step.after)
		if got := watch.becameUnserved(step.err, now); got != step.want {
			t.Errorf("failure %d: got %t, want %t", n, got, step.want)
		}
	}
}

func TestWatchIsUnreliableAfterFailure(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	shown := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web", ResourceVersion: "7"},
	}
	if err := store.Add(shown); err != nil {
		t.Fatal(err)
	}
	watch := &kindWatch{Version: "v1", objects: store, synced: func() bool { return true }}
	w := &Watches{kinds: map[schema.GroupKind]*kindWatch{{Group: "apps", Kind: "Deployment"}: watch}}
	web := v1beta2.Resource{
		Name:             "web",
		Namespace:        "apps",
		GroupVersionKind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
	}
	if got := w.Version(web); got != "7" {
		t.Fatalf("working watch: got version %q, want 7", got)
	}
	watch.handleError(t.Context(), &cache.Reflector{}, errors.New("conversion webhook is not available"))
	if got := w.Version(web); got != "" {
		t.Errorf("watch after a failure: got version %q, want none", got)
	}
	watch.lastFailure.Store(time.Now().Add(-outdatedAfterFailure).UnixNano())
	if got := w.Version(web); got != "7" {
		t.Errorf("watch after outdatedAfterFailure: got version %q, want 7", got)
	}
}
