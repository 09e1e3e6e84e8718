// Package shard divides a fleet among several publisher processes. It is pure.
//
// A hash of the runtime ID assigns each runtime to one of a fixed number of shards. A process publishes for the shards
// whose leases it holds. The holder of one additional lease is the planner, which writes rollouts, labels each Kyma
// with its shard, and announces the planned state of the control plane.
//
// The planner announces a state only after it has written all required Rollouts, and a shard resolves Kymas only while
// its caches match the announced state. A promotion therefore cannot bypass its rollout.
package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// MaxShards limits the number of shards.
const MaxShards = 64

// Of returns the shard of a runtime, from 0 to n-1.
func Of(runtime string, n int) int {
	sum := sha256.Sum256([]byte(runtime))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}

// Label returns the value of the shard label of Kymas. The value contains n, so a process with another number of shards
// ignores the label.
func Label(shard, n int) string { return fmt.Sprintf("%d-of-%d", shard, n) }
