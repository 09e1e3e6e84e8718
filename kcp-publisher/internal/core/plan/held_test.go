package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

func TestRolloutThatIsBeingDeletedHoldsNoVersion(t *testing.T) {
	all := []fleet.Rollout{
		{ObjectMeta: metav1.ObjectMeta{Name: "keda-fast-1"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "keda-fast-2", DeletionTimestamp: &metav1.Time{Time: time.Now()}}},
	}
	for i := range all {
		all[i].Spec = fleet.RolloutSpec{Module: "keda", Channel: "fast", Revision: int64(i + 1), From: "1.0.0", To: "1.1.0"}
		all[i].Status.State = fleet.RolloutProgressing
	}
	holder := NewHolders(all)[rollout.Track{Module: "keda", Channel: "fast"}]
	require.NotNil(t, holder)
	require.Equal(t, "keda-fast-1", holder.Rollout.Name)
	require.Empty(t, rollout.FindNewer(&all[0], all), "the newer rollout is being deleted")
	all[1].DeletionTimestamp = nil
	require.Equal(t, "keda-fast-2", rollout.FindNewer(&all[0], all))
}
