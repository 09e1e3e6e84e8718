package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Tally counts runtimes by health, situation and module version. Runtimes can be added and removed one at a time. A
// Tally is not safe for concurrent use.
type Tally struct {
	total      int
	health     map[Health]int
	situations map[Situation]int
	modules    map[string]map[versionState]int
}

type versionState struct {
	version string
	state   v1beta2.State
}

// newTally returns an empty Tally.
func newTally() *Tally {
	return &Tally{health: map[Health]int{}, situations: map[Situation]int{}, modules: map[string]map[versionState]int{}}
}

// Add adds a runtime to the counts.
func (t *Tally) Add(r *Runtime) {
	t.total++
	t.health[r.Health]++
	if r.Cause != nil {
		t.situations[r.Cause.Situation]++
	}
	for i := range r.Modules {
		m := &r.Modules[i]
		at := t.modules[m.Name]
		if at == nil {
			at = map[versionState]int{}
			t.modules[m.Name] = at
		}
		at[versionState{m.Version, m.State}]++
	}
}

// Summary returns the number of runtimes by health and situation. It does not set OldestReport.
func (t *Tally) Summary() Summary {
	return Summary{Total: t.total, Health: maps.Clone(t.health), Situations: maps.Clone(t.situations)}
}

// Modules returns all modules that are in a counted runtime or in metas, with their versions in runtimes and channels.
func (t *Tally) Modules(metas []v1beta2.ModuleReleaseMeta) []Module {
	byName := make(map[string]*Module, len(t.modules)+len(metas))
	for name, counts := range t.modules {
		m := &Module{Name: name}
		byName[name] = m
		m.Versions = moduleVersions(counts)
	}
	for i := range metas {
		spec := &metas[i].Spec
		name := cmp.Or(spec.ModuleName, metas[i].Name)
		m := byName[name]
		if m == nil {
			m = &Module{Name: name}
			byName[name] = m
		}
		for _, c := range spec.Channels {
			if m.Channels == nil {
				m.Channels = map[string]string{}
			}
			m.Channels[c.Channel] = c.Version
		}
	}
	all := make([]Module, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, *byName[name])
	}
	return all
}

func moduleVersions(counts map[versionState]int) []ModuleVersion {
	states := map[string]map[v1beta2.State]int{}
	for at, n := range counts {
		if states[at.version] == nil {
			states[at.version] = map[v1beta2.State]int{}
		}
		states[at.version][at.state] += n
	}
	all := make([]ModuleVersion, 0, len(states))
	for version, by := range states {
		all = append(all, ModuleVersion{Version: version, States: by})
	}
	slices.SortFunc(all, func(a, b ModuleVersion) int { return newestFirst(a.Version, b.Version) })
	return all
}

// newestFirst compares semantic versions, newest first. Invalid versions come last.
func newestFirst(a, b string) int {
	va, errA := semver.NewVersion(a)
	vb, errB := semver.NewVersion(b)
	switch {
	case errA == nil && errB == nil:
		return cmp.Or(vb.Compare(va), strings.Compare(a, b))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return strings.Compare(a, b)
}
