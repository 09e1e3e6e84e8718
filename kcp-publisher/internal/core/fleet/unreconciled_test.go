package fleet

import (
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestRuntimesThatNoPublisherReconcilesAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		later  time.Duration // time from the last status until the evaluation
		want   map[Health]int
	}{
		"Kyma that no publisher has reconciled": {
			func(w *world) { w.untouched = true }, 0, map[Health]int{NeverReported: 1},
		},
		"Kyma that was reconciled until two days ago": {
			func(*world) {}, 48 * time.Hour, map[Health]int{Silent: 1},
		},
		"reconciled Kyma":                    {func(*world) {}, time.Hour, map[Health]int{}},
		"reconciled Kyma without any report": {func(w *world) { w.never() }, time.Hour, map[Health]int{}},
		"reconciled Kyma of a silent runtime": {
			func(w *world) { w.lastReport = noon.Add(-2 * time.Hour) }, time.Hour, map[Health]int{},
		},
		"suspended Kyma": {func(w *world) {
			w.untouched, w.kyma.Labels[v1beta2.LabelSkipReconciliation] = true, "true"
		}, 0, map[Health]int{}},
		"deleted Kyma": {func(w *world) {
			w.untouched, w.kyma.DeletionTimestamp = true, &metav1.Time{Time: noon}
		}, 0, map[Health]int{}},
	} {
		w, counts := newWorld(t), map[Health]int{}
		c.change(w)
		CountUnreconciled(counts, []v1beta2.Kyma{*w.status()}, w.now.Add(c.later))
		if !maps.Equal(counts, c.want) {
			t.Errorf("%s: got counts %v, want %v", name, counts, c.want)
		}
	}
}
