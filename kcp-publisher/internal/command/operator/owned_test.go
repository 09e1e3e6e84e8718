package operator

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

func TestReplicaForwardsNotificationsForOtherShards(t *testing.T) {
	var passed []string
	o := newOwned(2, func(runtime string) { passed = append(passed, runtime) })
	if o.owns("one") || o.has("one") || !o.leading() {
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
	if o.pass(ids[0]); !slices.Equal(passed, []string{ids[0]}) {
		t.Errorf("passed on %v, want %s", passed, ids[0])
	}
	if err := o.readReport(t.Context(), ids[0]); err == nil {
		t.Error("the replica reads a report of another shard")
	}
	o.handleForwarded([]string{ids[0]}) // a replica without a receiver ignores them
	if o.set(1, nil); o.owns(ids[1]) {
		t.Error("the replica owns a runtime after its shard has ended")
	}
}
