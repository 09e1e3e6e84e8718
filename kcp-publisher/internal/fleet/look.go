package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rollout"
)

// rootWarning is how long before its end a root of trust is a warning, as the publisher logs it.
const rootWarning = 30 * 24 * time.Hour

// minHeard is from how many runtimes on most of them say something of the fleet.
const minHeard = 3

// Look says how a fleet is doing.
func Look(in Input) Fleet {
	f := Fleet{Time: in.Now, Runtimes: make([]Runtime, 0, len(in.Kymas)), Rollouts: sortedRollouts(in.Rollouts)}
	rollouts := NewRollouts(in.Rollouts)
	tally := NewTally()
	for i := range in.Kymas {
		f.Runtimes = append(f.Runtimes, Judge(&in.Kymas[i], rollouts, in.Now))
		tally.Add(&f.Runtimes[i])
	}
	slices.SortFunc(f.Runtimes, func(a, b Runtime) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kyma, b.Kyma))
	})
	f.Summary = tally.Summary()
	f.Summary.OldestReport = oldestReport(f.Runtimes)
	f.Modules = tally.Modules(in.Metas)
	f.Warnings = warnings(in, f)
	return f
}

// oldestReport returns when the runtime that is silent for longest was heard, nil where none is that reported before.
func oldestReport(all []Runtime) *time.Time {
	var oldest *time.Time
	for i := range all {
		if at := all[i].silentSince(); at != nil && (oldest == nil || at.Before(*oldest)) {
			oldest = at
		}
	}
	return oldest
}

// silentSince returns when a runtime was heard last that is not heard any more, nil for others.
func (r *Runtime) silentSince() *time.Time {
	if r.Health != Silent {
		return nil
	}
	return r.LastReport
}

// sortedRollouts returns rollouts, those under way first, then the newest.
func sortedRollouts(all []v1alpha1.Rollout) []Rollout {
	sorted := make([]Rollout, 0, len(all))
	for i := range all {
		r := &all[i]
		status := r.Status
		status.Message = text(status.Message)
		sorted = append(sorted, Rollout{Name: r.Name, Spec: r.Spec, Status: status, Active: !rollout.Finished(r.Status.State)})
	}
	slices.SortStableFunc(sorted, func(a, b Rollout) int {
		if a.Active != b.Active {
			return map[bool]int{true: -1, false: 1}[a.Active]
		}
		return cmp.Or(b.startedAt().Compare(a.startedAt()), strings.Compare(a.Name, b.Name))
	})
	return sorted
}

func (r *Rollout) startedAt() time.Time {
	if r.Status.StartedAt == nil {
		return time.Time{}
	}
	return r.Status.StartedAt.Time
}

// warnings are about the fleet as a whole.
func warnings(in Input, f Fleet) []Cause {
	var all []Cause
	warn := func(situation Situation, message string) {
		advice := strings.ReplaceAll(byName[situation].Advice, "NAMESPACE", cmp.Or(namespaceOf(in.Kymas), "NAMESPACE"))
		all = append(all, Cause{Situation: situation, Message: text(message), Advice: advice})
	}
	if in.Held != "" {
		all = append(all, Held(in.Held))
	}
	if at := in.RootExpires; !at.IsZero() && !in.Now.Before(at) {
		warn(RootExpired, "the root of trust expired at "+at.UTC().Format(time.RFC3339))
	} else if !at.IsZero() && at.Sub(in.Now) < rootWarning {
		warn(RootExpiresSoon, "the root of trust expires at "+at.UTC().Format(time.RFC3339))
	}
	silent, heard := f.Summary.Health[Silent], 0
	for i := range f.Runtimes {
		if r := &f.Runtimes[i]; r.LastReport != nil && r.Health != Suspended {
			heard++
		}
	}
	if heard >= minHeard && silent*2 > heard {
		warn(FleetSilent, fmt.Sprintf("%d of %d runtimes that reported before are silent", silent, heard))
	}
	return all
}

// Held is the cause of all runtimes while nothing is published.
func Held(why string) Cause {
	return Cause{Situation: CommitHolds, Message: text(why), Advice: byName[CommitHolds].Advice}
}

func namespaceOf(kymas []v1beta2.Kyma) string {
	if len(kymas) == 0 {
		return ""
	}
	return word(kymas[0].Namespace, "")
}

// Tally counts runtimes one by one, so that a change of one costs no look at the others. It is for one goroutine.
type Tally struct {
	total      int
	health     map[Health]int
	situations map[Situation]int
	modules    map[string]map[moduleAt]int
}

// moduleAt is a version of a module in a state.
type moduleAt struct {
	version string
	state   v1beta2.State
}

// NewTally returns one of no runtimes.
func NewTally() *Tally {
	return &Tally{health: map[Health]int{}, situations: map[Situation]int{}, modules: map[string]map[moduleAt]int{}}
}

// Add counts a runtime.
func (t *Tally) Add(r *Runtime) { t.count(r, 1) }

// Remove takes back what Add counted of an equal runtime.
func (t *Tally) Remove(r *Runtime) { t.count(r, -1) }

func (t *Tally) count(r *Runtime, n int) {
	t.total += n
	change(t.health, r.Health, n)
	if r.Cause != nil {
		change(t.situations, r.Cause.Situation, n)
	}
	for i := range r.Modules {
		m := &r.Modules[i]
		at := t.modules[m.Name]
		if at == nil {
			at = map[moduleAt]int{}
			t.modules[m.Name] = at
		}
		change(at, moduleAt{m.Version, m.State}, n)
		if len(at) == 0 {
			delete(t.modules, m.Name)
		}
	}
}

// change adds to a count, and drops one of nothing.
func change[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

// Summary returns the counts. It says nothing of the oldest report: that is no count.
func (t *Tally) Summary() Summary {
	return Summary{Total: t.total, Health: maps.Clone(t.health), Situations: maps.Clone(t.situations)}
}

// Modules returns which versions run where, and which versions channels have; also modules that nobody runs.
func (t *Tally) Modules(metas []v1beta2.ModuleReleaseMeta) []Module {
	byName := make(map[string]*Module, len(t.modules)+len(metas))
	for name, counts := range t.modules {
		m := &Module{Name: name}
		byName[name] = m
		m.Versions = versions(counts)
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

func versions(counts map[moduleAt]int) []ModuleVersion {
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
	slices.SortFunc(all, func(a, b ModuleVersion) int {
		switch {
		case bundle.Older(b.Version, a.Version):
			return -1
		case bundle.Older(a.Version, b.Version):
			return 1
		}
		return strings.Compare(a.Version, b.Version)
	})
	return all
}
