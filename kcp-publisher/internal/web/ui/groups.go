package ui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// maxGroups bounds the groups that a page shows.
const maxGroups = 200

// group is how many runtimes share a value, and how they are.
type group struct {
	Value string
	// Address lists them.
	Address string
	Count   tally
}

// tally counts runtimes by health.
type tally struct {
	Total int
	by    map[fleet.Health]int
}

func (t *tally) add(h fleet.Health) {
	if t.by == nil {
		t.by = map[fleet.Health]int{}
	}
	t.Total++
	t.by[h]++
}

// share is one part of a bar.
type share struct {
	Health fleet.Health
	Count  int
	// X and Width are in percent.
	X, Width string
}

// Shares returns the healths that there are, the worst first.
func (t tally) Shares() []share {
	var shares []share
	before := 0
	for _, h := range healths {
		if n := t.by[h]; n > 0 {
			shares = append(shares, share{h, n, percent(before, t.Total), percent(n, t.Total)})
			before += n
		}
	}
	return shares
}

// Healthy returns how many have nothing in their way.
func (t tally) Healthy() int { return t.by[fleet.Healthy] }

// Attention returns how many should be looked at: they fail, or nobody hears of them.
func (t tally) Attention() int {
	return t.by[fleet.Failing] + t.by[fleet.Silent] + t.by[fleet.NeverReported]
}

// grouping is a way to group runtimes: the values that a runtime has, and which field of a query asks for one.
type grouping struct {
	Name, Title string
	values      func(*fleet.Runtime) []string
	field       string
}

// groupings returns the ways to group the fleet's runtimes. That by version is of the module that the query names, else of all.
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
		ways = append([]grouping{{"version", "Version of " + line(64, q.Module), func(r *fleet.Runtime) []string {
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
		ways = append(ways, grouping{"label:" + key, "Label " + line(100, key), func(r *fleet.Runtime) []string {
			if value, has := r.Labels[key]; has {
				return []string{value}
			}
			return nil
		}, "label"})
	}
	return ways
}

// count groups runtimes; those with most to look at come first.
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
		return cmp.Or(b.Count.Attention()-a.Count.Attention(), b.Count.Total-a.Count.Total, strings.Compare(a.Value, b.Value))
	})
	q.Group = ""
	for i := range groups {
		value := named(groups[i].Value)
		if key, isLabel := strings.CutPrefix(g.Name, "label:"); isLabel {
			value = key + "=" + value
		}
		groups[i].Address = q.With(g.field, value)
	}
	return groups
}
