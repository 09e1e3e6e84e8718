package manager

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestStatusUpdatesAreNotChanges(t *testing.T) {
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
		"the same":                   {of("a", "1", 1, false), of("a", "1", 1, false), false},
		"a new status":               {of("a", "1", 1, false), of("a", "2", 1, false), false},
		"a new spec":                 {of("a", "1", 1, false), of("a", "2", 2, false), true},
		"a kind without generations": {of("a", "1", 0, false), of("a", "2", 0, false), true},
		"a deletion that waits":      {of("a", "1", 1, false), of("a", "2", 1, true), true},
		"another object of the name": {of("a", "1", 1, false), of("b", "2", 1, false), true},
	} {
		if got := differs(c.was, c.is); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
