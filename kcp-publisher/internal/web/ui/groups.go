package ui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const maxGroups = 200

type group struct {
	Value string
	// Address is the page that lists the group's runtimes.
	Address string
	Count   healthTally
}

type healthTally struct {
	Total int
	by    map[fleet.Health]int
}

func (t *healthTally) add(h fleet.Health) {
	if t.by == nil {
		t.by = map[fleet.Health]int{}
	}
	t.Total++
	t.by[h]++
}

// barSegment is the part of a bar that represents the runtimes with one health value.
type barSegment struct {
	Health fleet.Health
	Count  int
	// X is the segment's left edge. X and Width are percentages of the bar's width.
	X, Width string
}

// Shares returns the bar's segments, worst health first.
func (t healthTally) Shares() []barSegment {
	var shares []barSegment
	before := 0
	for _, h := range healthOrder {
		if n := t.by[h]; n > 0 {
			shares = append(shares, barSegment{h, n, percent(before, t.Total), percent(n, t.Total)})
			before += n
		}
	}
	return shares
}

func (t healthTally) Healthy() int { return t.by[fleet.Healthy] }

func (t healthTally) Attention() int { return fleet.Summary{Health: t.by}.Attention() }

// grouping is a way to group runtimes, such as by channel. values returns a runtime's groups. field is the query field
// that selects the runtimes in one group.
type grouping struct {
	Name, Title string
	values      func(*fleet.Runtime) []string
	field       string
}

// groupings returns the possible ways to group a query's runtimes. Runtimes can be grouped by version only if the query
// selects a module.
func groupings(s *snapshot, q query) []grouping {
	one := func(value func(*fleet.Runtime) string) func(*fleet.Runtime) []string {
		return func(r *fleet.Runtime) []string { return []string{value(r)} }
	}
	ways := []grouping{
		{"module", "Module", func(r *fleet.Runtime) []string {
			names := make([]string, len(r.Modules))
			for i := range r.Modules {
				names[i] = r.Modules[i].Name
			}
			return names
		}, "module"},
		{"channel", "Channel", one(func(r *fleet.Runtime) string { return r.Channel }), "channel"},
		{"agent", "Agent version", one(func(r *fleet.Runtime) string { return r.Agent }), "agent"},
		{"kubernetes", "Kubernetes version", one(func(r *fleet.Runtime) string { return r.Kubernetes }), "kubernetes"},
	}
	if q.Module != "" {
		ways = append([]grouping{{"version", "Version of " + cleanLine(64, q.Module), func(r *fleet.Runtime) []string {
			var versions []string
			for i := range r.Modules {
				if r.Modules[i].Name == q.Module {
					versions = append(versions, r.Modules[i].Version)
				}
			}
			return versions
		}, "version"}}, ways...)
	}
	for _, key := range s.labels {
		ways = append(ways, grouping{"label:" + key, "Label " + cleanLine(100, key), func(r *fleet.Runtime) []string {
			if value, has := r.Labels[key]; has {
				return []string{value}
			}
			return nil
		}, "label"})
	}
	return ways
}

// count returns the groups with their numbers of runtimes. The groups with the most runtimes that need attention come
// first.
func (g grouping) count(runtimes []*fleet.Runtime, q query) []group {
	index := map[string]int{}
	var groups []group
	for _, r := range runtimes {
		values := g.values(r)
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			at, known := index[value]
			if !known {
				at = len(groups)
				index[value] = at
				groups = append(groups, group{Value: value})
			}
			groups[at].Count.add(r.Health)
		}
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(b.Count.Attention()-a.Count.Attention(), b.Count.Total-a.Count.Total,
			strings.Compare(a.Value, b.Value))
	})
	q.Group = ""
	for i := range groups {
		value := valueName(groups[i].Value)
		if key, isLabel := strings.CutPrefix(g.Name, "label:"); isLabel {
			value = key + "=" + value
		}
		groups[i].Address = q.With(g.field, value)
	}
	return groups
}
