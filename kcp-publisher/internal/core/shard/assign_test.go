package shard

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/kyma-pull/kyma-pull/hack/suite"
)

func shares(to map[int]string) map[string]int {
	all := map[string]int{}
	for _, member := range to {
		all[member]++
	}
	return all
}

func named(n int) (members []string) {
	for i := range n {
		members = append(members, fmt.Sprint("pod-", i))
	}
	return members
}

func TestReplicasGetEqualSharesWithFewMoves(t *testing.T) {
	random := rand.New(rand.NewPCG(suite.Seed(t, 1), 1))
	for range 5000 {
		n, members := 1+random.IntN(20), named(1+random.IntN(9))
		held := map[int]string{}
		for shard := range n { // some shards are held by current members, some by former members, and some by none
			if at := random.IntN(14); at < 12 {
				held[shard] = fmt.Sprint("pod-", at)
			}
		}
		to := Assign(n, held, members)
		has := shares(to)
		if len(to) != n {
			t.Fatalf("got %d shards assigned, want %d", len(to), n)
		}
		live, moved, surplus := shares(held), 0, 0
		for _, member := range members {
			if got := has[member]; got < n/len(members) || got > (n+len(members)-1)/len(members) {
				t.Fatalf("%s has %d of %d shards of %d members", member, got, n, len(members))
			}
			surplus += max(0, live[member]-has[member])
		}
		for shard, holder := range held {
			if _, is := has[holder]; is && to[shard] != holder {
				moved++
			}
		}
		if moved != surplus {
			t.Fatalf("%d shards move, want at most %d: %v of members %v to %v", moved,
				surplus, n, held, to)
		}
		if again := Assign(n, to, members); !maps.Equal(again, to) {
			t.Fatalf("a second assignment differs: %v, then %v", to, again)
		}
	}
}

func TestShardsMoveOnlyToTheNewMember(t *testing.T) {
	for n := 1; n <= 24; n++ {
		to := map[int]string{}
		for count := 1; count <= 12; count++ {
			before := to
			to = Assign(n, before, named(count))
			newest := fmt.Sprint("pod-", count-1)
			moved := 0
			for shard, holder := range before {
				if to[shard] != holder {
					moved++
					if to[shard] != newest {
						t.Fatalf("shard %d moves from %s to the existing member %s", shard, holder, to[shard])
					}
				}
			}
			if moved > (n+count-1)/count {
				t.Fatalf("%d of %d shards move to the new member, with %d members in total", moved, n, count)
			}
		}
		gone := Assign(n, to, named(11))
		for shard, holder := range to {
			if holder != "pod-11" && gone[shard] != holder {
				t.Fatalf("shard %d of %s moves, although only pod-11 is gone", shard, holder)
			}
		}
	}
	if Assign(3, nil, nil) != nil {
		t.Error("a shard is assigned without members")
	}
}

func TestRuntimesAreSpreadEvenlyOverShards(t *testing.T) {
	const runtimes, n = 30_000, 6
	counts := [n]int{}
	for i := range runtimes {
		counts[ShardOf(fmt.Sprint("runtime-", i), n)]++
	}
	for shard, count := range counts {
		if count < runtimes/n*95/100 || count > runtimes/n*105/100 {
			t.Errorf("shard %d has %d of %d runtimes, which is not a fair share", shard, count, runtimes)
		}
	}
}
