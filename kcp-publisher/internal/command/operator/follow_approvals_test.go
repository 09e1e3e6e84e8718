package operator

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

func TestInvalidStoredApprovalsDoNotStopThePlanner(t *testing.T) {
	stored := shard.Approvals{Commit: "3f0c", Kymas: map[types.UID]bool{"1": true}}
	data, _, err := stored.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got := recalledApprovals(t.Context(), data); got.Commit != "3f0c" {
		t.Errorf("got approvals %+v, want the stored ones", got)
	}
	if got := recalledApprovals(t.Context(), data[:len(data)/2]); got.Commit != "" {
		t.Errorf("got approvals %+v of truncated data, want none", got)
	}
}
