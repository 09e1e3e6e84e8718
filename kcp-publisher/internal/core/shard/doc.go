// Package shard divides a fleet among several publisher processes. It is pure.
//
// The fleet has a fixed number of shards. A hash of the runtime ID assigns each runtime to a shard, and a process
// publishes for the shards whose leases it holds. The holder of one additional lease is the planner. The planner
// creates and updates rollouts, labels each Kyma with its shard, and announces the state of the control plane that it
// has planned.
//
// Shards watch ModuleReleaseMetas, RolloutPolicies and Rollouts separately, so they can see changes in any order. Two
// rules prevent a promotion from bypassing its rollout. The planner announces a state only after it has written all
// required Rollouts, and a shard resolves Kymas only while its caches match the announced state. Each shard computes
// the effect of a Rollout on its own runtimes.
package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// MaxShards limits the number of shards. Each shard needs a lease that is renewed every few seconds, and a connection
// for each kind of object.
const MaxShards = 64

// Of returns the shard to which a runtime belongs, from 0 to n-1.
func Of(runtime string, n int) int {
	sum := sha256.Sum256([]byte(runtime))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}

// Label returns the value of the shard label of Kymas. The value contains n, so a process with another number of shards
// ignores the label.
func Label(shard, n int) string { return fmt.Sprintf("%d-of-%d", shard, n) }
