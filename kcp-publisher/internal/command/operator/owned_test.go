package operator

import (
	"context"
	"fmt"
	"testing"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

func TestReplicaReadsOnlyReportsForItsShards(t *testing.T) {
	o := newOwned(2)
	if o.owns("one") || o.hasRuntime("one") || !o.acceptsNotifications() {
		t.Error("a replica without shards must accept notifications and own no runtime")
	}
	ids := map[int]string{}
	for i := 0; len(ids) < 2; i++ {
		id := fmt.Sprint("runtime-", i)
		ids[shard.ShardOf(id, 2)] = id
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.set(1, &running{ctx, nil})
	if o.owns(ids[0]) || !o.owns(ids[1]) {
		t.Errorf("the replica with shard 1 owns %s: %t, and %s: %t", ids[0], o.owns(ids[0]), ids[1], o.owns(ids[1]))
	}
	if err := o.readReport(t.Context(), ids[0]); err == nil {
		t.Error("the replica reads a report of another shard")
	}
	o.addForwarded(nil, []string{ids[0]}) // a queued runtime from another shard would cause a panic
	if o.set(1, nil); o.owns(ids[1]) {
		t.Error("the replica owns a runtime after its shard has ended")
	}
}
