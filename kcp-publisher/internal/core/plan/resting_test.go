package plan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestRuntimeRestsOnceItAppliedItsLatestBundle(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*v1beta2.Kyma)
		want   bool
	}{
		"it has applied the latest bundle": {func(*v1beta2.Kyma) {}, true},
		"it was taken over": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Takeover = &v1beta2.TakeoverStatus{Published: "clean", Done: "clean"}
		}, true},
		"it is being taken over": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Takeover = &v1beta2.TakeoverStatus{Published: "clean", Done: "adopt"}
		}, false},
		"it reports an older bundle": {func(k *v1beta2.Kyma) { k.Status.Runtime.Published.Digest = "sha256:b" }, false},
		"it has never reported":      {func(k *v1beta2.Kyma) { k.Status.Runtime.Observed = nil }, false},
		"it has applied no bundle":   {func(k *v1beta2.Kyma) { k.Status.Runtime.Observed.Digest = "" }, false},
		"nothing was published":      {func(k *v1beta2.Kyma) { k.Status.Runtime.Published = nil }, false},
		"neither was": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Published.Digest, k.Status.Runtime.Observed.Digest = "", ""
		}, false},
		"nothing is known":       {func(k *v1beta2.Kyma) { k.Status.Runtime = nil }, false},
		"a module is not ready":  {func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateProcessing }, false},
		"a module is broken":     {func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateError }, false},
		"something needs a look": {func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateWarning }, false},
		"it removes its modules": {func(k *v1beta2.Kyma) { k.DeletionTimestamp = new(metav1.Now()) }, false},
		"its Kyma has no state":  {func(k *v1beta2.Kyma) { k.Status.State = "" }, false},
		"its state differs":      {func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateDeleting }, false},
	} {
		kyma := kymaOf("one")
		kyma.Status.State = v1beta2.StateReady
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			Published: &v1beta2.PublishedBundle{Digest: "sha256:a"},
			Observed:  &v1beta2.ObservedBundle{Digest: "sha256:a"},
		}
		c.change(kyma)
		if got := Resting(kyma); got != c.want {
			t.Errorf("%s: got %v", what, got)
		}
	}
}
