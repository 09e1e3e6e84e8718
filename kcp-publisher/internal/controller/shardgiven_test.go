package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// A shard writes a status, and the planner then changes a Rollout because of this status. The shard's cache can
// receive the planner's change before it receives the shard's own status.
func TestShardUsesItsOwnWritesBeforeTheCacheCatchesUp(t *testing.T) {
	kyma := func(resourceVersion, rollout string) v1beta2.Kyma {
		k := v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kcp-system", Name: "one", UID: "uid", ResourceVersion: resourceVersion,
			},
		}
		k.Status.Runtime = &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{}}
		if rollout != "" {
			k.Status.Runtime.Published.Given = map[string]v1beta2.GivenVersion{"keda": {Rollout: rollout}}
		}
		return k
	}
	s := &RemotePlanner{fleet: fleetstate.New()}
	seen := func(cached v1beta2.Kyma) string {
		return s.ownKymas(shard.Share{}, []v1beta2.Kyma{cached})[0].Status.Runtime.Published.Given["keda"].Rollout
	}
	before, after := kyma("9", ""), kyma("10", "keda-regular-1")
	s.keepWritten(before.Status, &after)
	if got := seen(before); got != "keda-regular-1" {
		t.Errorf("outdated cache: got rollout %q, want keda-regular-1", got)
	}
	again := after
	again.ResourceVersion = "11"
	s.keepWritten(after.Status, &again) // the versions that rollouts selected do not differ
	if got := seen(kyma("12", "keda-regular-2")); got != "keda-regular-2" {
		t.Errorf("newer cache: got rollout %q, want keda-regular-2", got)
	}
	if got := seen(before); got != "" || s.fleet.Get(client.ObjectKeyFromObject(&before)).WrittenKyma != nil {
		t.Errorf("after the cache contained the status: got rollout %q, want none", got)
	}
	s.keepWritten(before.Status, &after)
	s.fleet.Delete(client.ObjectKeyFromObject(&after))
	if got := seen(before); got != "" {
		t.Errorf("deleted Kyma: got rollout %q, want none", got)
	}
	var whole *RemotePlanner
	whole.keepWritten(before.Status, &after)
}
