package plan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestRuntimeIsIdleAfterApplyingTheLatestBundle(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*v1beta2.Kyma)
		want   bool
	}{
		"latest bundle applied": {func(*v1beta2.Kyma) {}, true},
		"takeover finished": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Takeover = &v1beta2.TakeoverStatus{Published: "clean", Done: "clean"}
		}, true},
		"takeover in progress": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Takeover = &v1beta2.TakeoverStatus{Published: "clean", Done: "adopt"}
		}, false},
		"older bundle applied":   {func(k *v1beta2.Kyma) { k.Status.Runtime.Published.Digest = "sha256:b" }, false},
		"runtime never reported": {func(k *v1beta2.Kyma) { k.Status.Runtime.Observed = nil }, false},
		"no bundle applied":      {func(k *v1beta2.Kyma) { k.Status.Runtime.Observed.Digest = "" }, false},
		"no bundle published":    {func(k *v1beta2.Kyma) { k.Status.Runtime.Published = nil }, false},
		"bundles without digests": {func(k *v1beta2.Kyma) {
			k.Status.Runtime.Published.Digest, k.Status.Runtime.Observed.Digest = "", ""
		}, false},
		"Kyma without a runtime status": {func(k *v1beta2.Kyma) { k.Status.Runtime = nil }, false},
		"module not ready":              {func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateProcessing }, false},
		"module in error":               {func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateError }, false},
		"Kyma in state Warning":         {func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateWarning }, false},
		"Kyma deleted":                  {func(k *v1beta2.Kyma) { k.DeletionTimestamp = new(metav1.Now()) }, false},
		"Kyma without a state":          {func(k *v1beta2.Kyma) { k.Status.State = "" }, false},
		"Kyma in state Deleting":        {func(k *v1beta2.Kyma) { k.Status.State = v1beta2.StateDeleting }, false},
	} {
		kyma := kymaOf("one")
		kyma.Status.State = v1beta2.StateReady
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			Published: &v1beta2.PublishedBundle{Digest: "sha256:a"},
			Observed:  &v1beta2.ObservedBundle{Digest: "sha256:a"},
		}
		c.change(kyma)
		if got := IsResting(kyma); got != c.want {
			t.Errorf("%s: got resting %t, want %t", what, got, c.want)
		}
	}
}
