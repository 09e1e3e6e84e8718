package manager

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestStatusChangesCauseNoReconcile(t *testing.T) {
	of := func(uid types.UID, version string, generation int64, deleted bool) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version, Generation: generation},
		}
		if deleted {
			o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return o
	}
	for name, c := range map[string]struct {
		was, is *metav1.PartialObjectMetadata
		want    bool
	}{
		"unchanged object":          {of("a", "1", 1, false), of("a", "1", 1, false), false},
		"status change":             {of("a", "1", 1, false), of("a", "2", 1, false), false},
		"spec change":               {of("a", "1", 1, false), of("a", "2", 2, false), true},
		"change without generation": {of("a", "1", 0, false), of("a", "2", 0, false), true},
		"deletion with a finalizer": {of("a", "1", 1, false), of("a", "2", 1, true), true},
		"recreated object":          {of("a", "1", 1, false), of("b", "2", 1, false), true},
	} {
		if got := isChanged(c.was, c.is); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
