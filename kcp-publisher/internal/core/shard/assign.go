package shard

import (
	"cmp"
	"maps"
	"slices"
)

// Assign assigns each of n shards to the process that must publish its bundles. members contains the names of all live
// processes. held maps each shard to the process that holds the shard's Lease now. Assign returns nil if
// members is empty.
//
// The numbers of shards per process differ by at most one. A shard moves to another process only if its current process
// is not in members or has too many shards.
func Assign(n int, held map[int]string, members []string) map[int]string {
	if len(members) == 0 {
		return nil
	}
	all := map[string][]int{}
	for _, member := range members {
		all[member] = nil
	}
	var free []int
	for shard := range n {
		if own, live := all[held[shard]]; live {
			all[held[shard]] = append(own, shard)
		} else {
			free = append(free, shard)
		}
	}
	// If the shards cannot be divided evenly, the processes that already have the most shards get one more, so that
	// fewer shards move.
	order := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(all[b]), len(all[a])), cmp.Compare(a, b))
	})
	share := func(at int) int {
		if at < n%len(order) {
			return n/len(order) + 1
		}
		return n / len(order)
	}
	to := make(map[int]string, n)
	for at, member := range order {
		own := all[member]
		keeps := min(len(own), share(at))
		for _, shard := range own[:keeps] {
			to[shard] = member
		}
		free = append(free, own[keeps:]...)
		all[member] = own[:keeps]
	}
	slices.Sort(free)
	for at, member := range order {
		missing := share(at) - len(all[member])
		for _, shard := range free[:missing] {
			to[shard] = member
		}
		free = free[missing:]
	}
	return to
}
