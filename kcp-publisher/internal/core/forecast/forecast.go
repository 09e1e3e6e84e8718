// Package forecast tells what a change of the control plane would do to its fleet: the Kymas and the catalog as they
// are and as they would be go in, out comes which runtimes would get which version in place of which, and what would
// hold them. It is pure, and it decides by what decides for real: resolve.
package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Fleet is a control plane at one moment.
type Fleet struct {
	// Kymas by name; one that is deleted has a deletion timestamp.
	Kymas   map[string]*v1beta2.Kyma
	Catalog *catalog.Snapshot
	// Request gives what a Kyma's runtime asks for, and what rollouts let it have.
	Request func(*v1beta2.Kyma) (resolve.Request, error)
	// Begins are rollouts that would be made at once.
	Begins []*fleet.Rollout
	// Rejections are the rollouts that stopped at the version that their channel has, or took it back.
	Rejections []*fleet.Rollout
}

// Change is the same thing happening to one or more runtimes.
type Change struct {
	Module  string `json:"module"`
	Channel string `json:"channel,omitempty"`
	// From is the version that the runtimes were given last, empty for none; To the one they would be given, empty for
	// none.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Held says what keeps them from what they ask for, or lets them wait; empty when nothing does.
	Held string `json:"held,omitempty"`
	// Runtimes are their ids, sorted.
	Runtimes []string `json:"runtimes"`
}

// Rollout is a rollout that would begin.
type Rollout struct {
	Name    string `json:"name"`
	Policy  string `json:"policy"`
	Module  string `json:"module"`
	Channel string `json:"channel"`
	From    string `json:"from"`
	To      string `json:"to"`
	Waves   []Wave `json:"waves"`
}

// Wave is one of its waves.
type Wave struct {
	Name     string `json:"name"`
	Runtimes int32  `json:"runtimes"`
	// Approval says that it would wait for one.
	Approval bool `json:"approval,omitempty"`
}

// Forecast is what would happen.
type Forecast struct {
	// Runtimes is how many there would be, Changed to how many of them, or of those that would leave, anything would
	// happen.
	Runtimes int `json:"runtimes"`
	Changed  int `json:"changed"`
	// Coming and Leaving are runtimes whose Kymas would be new or deleted, sorted.
	Coming  []string `json:"coming,omitempty"`
	Leaving []string `json:"leaving,omitempty"`
	// Rollouts are those that would begin, sorted by name.
	Rollouts []Rollout `json:"rollouts,omitempty"`
	// Warnings are about channels that would get a version that their last rollout rejected.
	Warnings []string `json:"warnings,omitempty"`
	// Changes are sorted by module, channel and versions.
	Changes []Change `json:"changes"`
}

// group is what makes changes of several runtimes the same one.
type group struct{ module, channel, from, to, held string }

// New compares. id names a Kyma's runtime. The error names the Kyma whose request cannot be read.
func New(before, after Fleet, id func(*v1beta2.Kyma) string, now time.Time) (Forecast, error) {
	var f Forecast
	groups := map[group][]string{}
	names := slices.Sorted(maps.Keys(after.Kymas))
	for name := range before.Kymas {
		if after.Kymas[name] == nil {
			return f, fmt.Errorf("Kyma %s is missing: one that would be deleted has a deletion timestamp", name)
		}
	}
	for _, name := range names {
		old, next := before.Kymas[name], after.Kymas[name]
		leaves := !next.DeletionTimestamp.IsZero()
		if !leaves {
			f.Runtimes++
		}
		had, refused := outlook(old, before, now)
		if refused != nil {
			had = kept(old) // nothing is published to it until somebody repairs it, which may be what is previewed
		}
		gets, err := outlook(next, after, now)
		switch {
		case err != nil && refused == nil && !leaves:
			return f, fmt.Errorf("Kyma %s: %w", name, err)
		case err != nil:
			gets = kept(next) // nothing is published to it either way
		}
		runtime := id(next)
		switch {
		case old == nil:
			f.Coming = append(f.Coming, runtime)
		case leaves && old.DeletionTimestamp.IsZero():
			f.Leaving = append(f.Leaving, runtime)
		}
		changed := compare(had, gets, given(next))
		for _, g := range changed {
			groups[g] = append(groups[g], runtime)
		}
		if len(changed) > 0 || old == nil || leaves && old.DeletionTimestamp.IsZero() {
			f.Changed++
		}
	}
	slices.Sort(f.Coming)
	slices.Sort(f.Leaving)
	f.Changes = sorted(groups)
	f.Rollouts = begins(before, after)
	f.Warnings = warnings(before, after)
	return f, nil
}

// begins returns the rollouts that would begin and would not begin anyway.
func begins(before, after Fleet) (all []Rollout) {
	for _, r := range after.Begins {
		if slices.ContainsFunc(before.Begins, func(b *fleet.Rollout) bool { return b.Name == r.Name && b.Spec.To == r.Spec.To }) {
			continue
		}
		next := Rollout{Name: r.Name, Policy: r.Spec.Policy, Module: r.Spec.Module, Channel: r.Spec.Channel, From: r.Spec.From, To: r.Spec.To}
		for i, w := range r.Status.Waves {
			next.Waves = append(next.Waves, Wave{Name: w.Name, Runtimes: w.Total, Approval: r.Spec.Waves[i].Approval})
		}
		all = append(all, next)
	}
	slices.SortFunc(all, func(a, b Rollout) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// warnings returns a message about each channel that would get a version that its last rollout rejected.
func warnings(before, after Fleet) (all []string) {
	for _, r := range after.Rejections {
		if !slices.ContainsFunc(before.Rejections, func(b *fleet.Rollout) bool { return b.Name == r.Name }) {
			all = append(all, rollout.Rejection(r))
		}
	}
	return all
}

// given are the versions that a runtime was given last.
func given(kyma *v1beta2.Kyma) map[string]string {
	if r := kyma.Status.Runtime; r != nil && r.Published != nil {
		return r.Published.Versions
	}
	return nil
}

// kept returns what a runtime has while nothing is published to it.
func kept(kyma *v1beta2.Kyma) map[string]resolve.Prospect {
	all := map[string]resolve.Prospect{}
	for module, version := range given(kyma) {
		all[module] = resolve.Prospect{Module: module, Version: version}
	}
	return all
}

func outlook(kyma *v1beta2.Kyma, f Fleet, now time.Time) (map[string]resolve.Prospect, error) {
	all := map[string]resolve.Prospect{}
	if kyma == nil {
		return all, nil
	}
	asked, err := f.Request(kyma)
	if err != nil {
		return nil, err
	}
	for _, p := range resolve.Outlook(asked, f.Catalog, given(kyma), now) {
		all[p.Module] = p
	}
	return all, nil
}

// compare returns what would become of modules that would not become of them anyway.
func compare(had, gets map[string]resolve.Prospect, given map[string]string) []group {
	modules := maps.Clone(had)
	maps.Copy(modules, gets)
	var changes []group
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		before, after := had[module], gets[module]
		if before.Version == after.Version && before.Held == after.Held {
			continue
		}
		changes = append(changes, group{module, cmp.Or(after.Channel, before.Channel), given[module], after.Version, after.Held})
	}
	return changes
}

func sorted(groups map[group][]string) []Change {
	changes := []Change{}
	for g, runtimes := range groups {
		slices.Sort(runtimes)
		changes = append(changes, Change{Module: g.module, Channel: g.channel, From: g.from, To: g.to, Held: g.held, Runtimes: runtimes})
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Held, b.Held))
	})
	return changes
}
