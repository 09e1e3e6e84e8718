// Package shard divides a fleet among several processes of the publisher. It is pure.
//
// The fleet has a fixed number of shards. A runtime belongs to one of them by a hash of its id, and a process publishes
// what belongs to the shards whose leases it holds. One more lease makes one process the planner, which makes and moves
// rollouts, labels each Kyma with its shard, and announces which state of the control plane it has planned.
//
// What keeps a promotion from passing a rollout: shards see ModuleReleaseMetas, RolloutPolicies and Rollouts in any
// order, each by a watch of its own. So a shard resolves nothing unless what it sees is the state that was announced,
// and a state is announced only after every Rollout that it needs has been written. Of a Rollout that was written a
// shard works out by itself what it says to the shard's runtimes.
package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// MaxShards bounds how many shards there are: each costs a lease that is renewed every few seconds, and a connection
// for each kind of object.
const MaxShards = 64

// Of returns which of n shards a runtime belongs to.
func Of(runtime string, n int) int {
	sum := sha256.Sum256([]byte(runtime))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}

// Label returns the value of the label that Kymas of one of n shards have. It names n, so that no shard of another
// number of shards takes them for its own.
func Label(shard, n int) string { return fmt.Sprintf("%d-of-%d", shard, n) }
