// Package shard divides the runtimes of a fleet among several publisher processes. It does not perform I/O.
//
// The number of shards is fixed. A hash of the runtime ID assigns each runtime to a shard. Each shard has a Lease,
// and the process that holds the Lease publishes the shard's bundles. One more Lease selects the planner process. The
// planner writes Rollouts and the shard label of each Kyma. It announces the control plane objects that it has
// processed.
//
// The planner announces objects only after it has written all required Rollouts. A shard publishes new bundles only
// while its caches contain exactly the announced objects. Therefore, no shard can publish a promoted version without
// its rollout.
package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// MaxShards limits the number of shards.
const MaxShards = 64

// ShardOf returns the shard of a runtime, from 0 to n-1.
func ShardOf(runtime string, n int) int {
	sum := sha256.Sum256([]byte(runtime))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}

// LabelValue returns the value of a Kyma's shard label. The value contains the number of shards, so that a process with
// a different number ignores the label.
func LabelValue(shard, n int) string { return fmt.Sprintf("%d-of-%d", shard, n) }
