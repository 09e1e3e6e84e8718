package install

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestAnApplyCountsForItsObjectOnly(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	seen := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "apps", Name: "web", UID: "second", ResourceVersion: "9",
		Annotations: map[string]string{annotationFields: "others", annotationAt: "1"},
	}}
	if err := store.Add(seen); err != nil {
		t.Fatal(err)
	}
	deployment := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	w := newWatches(nil, nil, "agent")
	w.kinds[deployment] = &kindWatch{version: "v1", objects: store, synced: func() bool { return true }}
	k := keyIn(deployment, "apps", "web")
	w.wrote(k, writing{"first", "7", ownFields{"ours", "2"}})
	web := v1beta2.Resource{
		Name: "web", Namespace: "apps",
		GroupVersionKind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
	}
	if own, sure := w.shown(web); !sure || own.fields != "others" {
		t.Errorf("an object with the same name: got %+v, %t", own, sure)
	}
	w.wrote(k, writing{"second", "9", ownFields{"ours", "2"}})
	if own, _ := w.shown(web); own.fields != "ours" {
		t.Errorf("the applied object: got %+v", own)
	}
	before := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web", UID: "first"}}
	w.handler(deployment).OnDelete(before)
	if !w.isOwn(k, "9") {
		t.Error("the deletion of an earlier object dropped the record")
	}
	w.handler(deployment).OnDelete(seen)
	if w.isOwn(k, "9") {
		t.Error("the record outlasts its object")
	}
}

func TestBrokenWatchIsNotAnEmptyList(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	shown := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web", ResourceVersion: "7"},
	}
	if err := store.Add(shown); err != nil {
		t.Fatal(err)
	}
	watch := &kindWatch{version: "v1", objects: store, synced: func() bool { return true }}
	w := &watches{kinds: map[schema.GroupKind]*kindWatch{{Group: "apps", Kind: "Deployment"}: watch}}
	web := v1beta2.Resource{
		Name:             "web",
		Namespace:        "apps",
		GroupVersionKind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
	}
	if got := w.version(web); got != "7" {
		t.Fatalf("while it works: version %q", got)
	}
	watch.failed(t.Context(), &cache.Reflector{}, errors.New("conversion webhook is away"))
	if got := w.version(web); got != "" {
		t.Errorf("right after it broke: version %q", got)
	}
	watch.broke.Store(time.Now().Add(-unsureAfterBreak).UnixNano())
	if got := w.version(web); got != "7" {
		t.Errorf("a while after it broke last: version %q", got)
	}
}
