package watch

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func printOf(t *testing.T, in any) string {
	t.Helper()
	out, err := reduceObject(in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := reduceObject(out)
	if err != nil || again != out {
		t.Fatalf("shrink of a shrunk object: got %v, %v, want the same object", again, err)
	}
	o := out.(*cachedObject)
	if o.Name != "one" || o.Namespace != "shop" || o.Labels != nil || o.Annotations != nil || o.ManagedFields != nil {
		t.Fatalf("shrunk metadata is %+v, want only name, namespace and resource version", o.ObjectMeta)
	}
	return o.fingerprint
}

func TestSpecFingerprintChangesWithGeneration(t *testing.T) {
	now := metav1.Now()
	meta := func(change func(*metav1.ObjectMeta)) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "one", UID: "u", ResourceVersion: "7", Generation: 3,
			Labels: map[string]string{"a": "b"},
		}}
		change(&o.ObjectMeta)
		return o
	}
	for name, c := range map[string]struct {
		before, after func(*metav1.ObjectMeta)
		counts        bool
	}{
		"new generation": {
			func(*metav1.ObjectMeta) {}, func(m *metav1.ObjectMeta) { m.Generation, m.ResourceVersion = 4, "8" }, true,
		},
		"new resource version only": {
			func(*metav1.ObjectMeta) {}, func(m *metav1.ObjectMeta) { m.ResourceVersion = "8" }, false,
		},
		"new annotation": {
			func(*metav1.ObjectMeta) {}, func(m *metav1.ObjectMeta) {
				m.Annotations = map[string]string{"a": "b"}
			}, false,
		},
		"deletion started": {
			func(*metav1.ObjectMeta) {}, func(m *metav1.ObjectMeta) { m.DeletionTimestamp = &now }, true,
		},
		"another object with the same name": {
			func(*metav1.ObjectMeta) {}, func(m *metav1.ObjectMeta) { m.UID = types.UID("v") }, true,
		},
		"new resource version of a kind without generation": {
			func(m *metav1.ObjectMeta) {
				m.Generation = 0
			}, func(m *metav1.ObjectMeta) { m.Generation, m.ResourceVersion = 0, "8" }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := printOf(t, meta(c.before)) != printOf(t, meta(c.after)); got != c.counts {
				t.Errorf("fingerprint changed: got %v, want %v", got, c.counts)
			}
		})
	}
}

func TestStatusFingerprintChangesWithStatusOnly(t *testing.T) {
	whole := func(change func(map[string]any)) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{
				"namespace":       "shop",
				"name":            "one",
				"uid":             "u",
				"resourceVersion": "7",
				"generation":      int64(3),
			},
			"spec": map[string]any{"size": int64(1)}, "status": map[string]any{"state": "Ready", "seen": int64(1)},
		}}
		change(o.Object)
		return o
	}
	same := printOf(t, whole(func(map[string]any) {}))
	for name, c := range map[string]struct {
		change func(map[string]any)
		counts bool
	}{
		"unchanged object": {func(map[string]any) {}, false},
		"changed spec":     {func(o map[string]any) { o["spec"] = map[string]any{"size": int64(2)} }, false},
		"changed generation": {
			func(o map[string]any) { o["metadata"].(map[string]any)["generation"] = int64(4) }, false,
		},
		"changed string in status": {func(o map[string]any) { o["status"].(map[string]any)["state"] = "Error" }, true},
		"changed number in status": {func(o map[string]any) { o["status"].(map[string]any)["seen"] = int64(2) }, true},
		"removed status":           {func(o map[string]any) { delete(o, "status") }, true},
		"emptied status":           {func(o map[string]any) { o["status"] = map[string]any{} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := printOf(t, whole(c.change)) != same; got != c.counts {
				t.Errorf("fingerprint changed: got %v, want %v", got, c.counts)
			}
		})
	}
}
