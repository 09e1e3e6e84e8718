// Package forecast computes how a change to the control plane would affect the fleet: the version changes in each
// runtime, and the reasons why a rollout would delay a version. It does not perform I/O. Package resolve makes the
// decisions.
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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Fleet contains a control plane's objects, either before or after a change.
type Fleet struct {
	// Kymas maps the name of each Kyma to the object. A deleted Kyma is included, with a deletion timestamp.
	Kymas map[string]*v1beta2.Kyma
	// Others contains the Kymas that other publishers reconcile.
	Others  map[string]*v1beta2.Kyma
	Catalog *catalog.Snapshot
	// Request returns the modules that a Kyma requests, with the versions that rollouts allow.
	Request func(*v1beta2.Kyma) (resolve.Request, error)
	// NewRollouts lists the rollouts that the publisher would start immediately.
	NewRollouts []*fleet.Rollout
	// Rejections lists the channels with a version whose rollout was stopped or rolled back.
	Rejections []rollout.Rejection
}

// Change is the version change of a module in one or more runtimes.
type Change struct {
	Module  string `json:"module"`
	Channel string `json:"channel,omitempty"`
	// From is the last published version, or empty for a new module. To is the version in the next bundle, or empty for
	// a removed module.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Held is the reason why the runtimes do not get the requested version, or empty.
	Held string `json:"held,omitempty"`
	// Runtimes lists the IDs of the affected runtimes, sorted.
	Runtimes []string `json:"runtimes"`
}

// Rollout is a Rollout object that would be created because of the change.
type Rollout struct {
	Name    string `json:"name"`
	Policy  string `json:"policy"`
	Module  string `json:"module"`
	Channel string `json:"channel"`
	From    string `json:"from"`
	To      string `json:"to"`
	Waves   []Wave `json:"waves"`
}

// Wave is a wave of the Rollout that would be created.
type Wave struct {
	Name     string `json:"name"`
	Runtimes int32  `json:"runtimes"`
	// Approval is true if the wave would wait for approval.
	Approval bool `json:"approval,omitempty"`
}

// Forecast is the effect that a change to the control plane has on the fleet.
type Forecast struct {
	// Runtimes is the number of runtimes after the change. Changed is the number of runtimes that the change affects,
	// including created and deleted ones.
	Runtimes int `json:"runtimes"`
	Changed  int `json:"changed"`
	// CreatedRuntimes contains the runtime IDs of the Kymas that the change creates, sorted. Leaving contains the
	// runtime IDs of the Kymas that the change deletes, sorted.
	CreatedRuntimes []string `json:"coming,omitempty"`
	Leaving         []string `json:"leaving,omitempty"`
	// Rollouts lists the Rollouts that would be created, sorted by name.
	Rollouts []Rollout `json:"rollouts,omitempty"`
	// Warnings contains a message for each channel that would offer a version although its rollout was stopped or
	// rolled back, and for each Kyma that moves to or from another publisher.
	Warnings []string `json:"warnings,omitempty"`
	// Changes are sorted by module, channel and versions.
	Changes []Change `json:"changes"`
}

// group is the map key for runtimes with the same change to a module.
type group struct{ module, channel, from, to, held string }

// New compares a fleet's objects before and after a change. id returns a Kyma's runtime ID. New returns an error if the
// change makes a Kyma's request invalid. It ignores Kymas that move to or from another publisher, except for a warning.
func New(before, after Fleet, id func(*v1beta2.Kyma) string, now time.Time) (Forecast, error) {
	var f Forecast
	groups := map[group][]string{}
	names, moved, err := comparedKymas(before, after)
	if err != nil {
		return f, err
	}
	for _, name := range names {
		old, next := before.Kymas[name], after.Kymas[name]
		leaves := !next.DeletionTimestamp.IsZero()
		if !leaves {
			f.Runtimes++
		}
		had, refused := predictModules(old, before, now)
		if refused != nil {
			had = publishedModules(old) // the publisher does not publish bundles for a Kyma with an invalid request
		}
		gets, err := predictModules(next, after, now)
		switch {
		case err != nil && refused == nil && !leaves:
			return f, fmt.Errorf("Kyma %s: %w", name, err)
		case err != nil:
			gets = publishedModules(next) // a Kyma with an invalid request keeps its versions
		}
		runtime := id(next)
		switch {
		case old == nil:
			f.CreatedRuntimes = append(f.CreatedRuntimes, runtime)
		case leaves && old.DeletionTimestamp.IsZero():
			f.Leaving = append(f.Leaving, runtime)
		}
		changed := compareModules(had, gets, publishedVersions(next))
		for _, g := range changed {
			groups[g] = append(groups[g], runtime)
		}
		if len(changed) > 0 || old == nil || leaves && old.DeletionTimestamp.IsZero() {
			f.Changed++
		}
	}
	slices.Sort(f.CreatedRuntimes)
	slices.Sort(f.Leaving)
	f.Changes = sortChanges(groups)
	f.Rollouts = newRollouts(before, after)
	f.Warnings = append(rejectionWarnings(before, after), moved...)
	return f, nil
}

// comparedKymas returns the sorted names of the Kymas that the publisher reconciles before and after the change, or
// that the change creates. It also returns a warning for each Kyma that moves to or from another publisher.
func comparedKymas(before, after Fleet) (names, moved []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(before.Kymas)) {
		switch {
		case after.Others[name] != nil:
			moved = append(moved, fmt.Sprintf("Kyma %s would move to another publisher, so its changes are not shown", name))
		case after.Kymas[name] == nil:
			return nil, nil, fmt.Errorf("the state after the change lacks Kyma %s: include deleted Kymas, with a deletion "+
				"timestamp", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after.Kymas)) {
		if before.Others[name] != nil {
			moved = append(moved,
				fmt.Sprintf("Kyma %s would move from another publisher, so its changes are not shown", name))
			continue
		}
		names = append(names, name)
	}
	return names, moved, nil
}

func newRollouts(before, after Fleet) (all []Rollout) {
	for _, r := range after.NewRollouts {
		if slices.ContainsFunc(before.NewRollouts,
			func(b *fleet.Rollout) bool { return b.Name == r.Name && b.Spec.To == r.Spec.To }) {
			continue
		}
		next := Rollout{
			Name: r.Name, Policy: r.Spec.Policy, Module: r.Spec.Module, Channel: r.Spec.Channel, From: r.Spec.From,
			To: r.Spec.To,
		}
		for i, w := range r.Status.Waves {
			next.Waves = append(next.Waves, Wave{Name: w.Name, Runtimes: w.Total, Approval: r.Spec.Waves[i].Approval})
		}
		all = append(all, next)
	}
	slices.SortFunc(all, func(a, b Rollout) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func rejectionWarnings(before, after Fleet) (all []string) {
	for _, r := range after.Rejections {
		if !slices.ContainsFunc(before.Rejections, func(b rollout.Rejection) bool {
			return b.Channel == r.Channel && b.Rollout.Name == r.Rollout.Name
		}) {
			all = append(all, rollout.RejectionMessage(r))
		}
	}
	return all
}

func publishedVersions(kyma *v1beta2.Kyma) map[string]string {
	if r := kyma.Status.Runtime; r != nil && r.Published != nil {
		return r.Published.Versions
	}
	return nil
}

// publishedModules returns the versions in the last published bundle. The runtime keeps them until the next bundle.
func publishedModules(kyma *v1beta2.Kyma) map[string]resolve.ModuleOutlook {
	all := map[string]resolve.ModuleOutlook{}
	for module, version := range publishedVersions(kyma) {
		all[module] = resolve.ModuleOutlook{Module: module, Version: version}
	}
	return all
}

// predictModules returns the module versions in the Kyma's next bundle. A suspended runtime keeps its bundle.
func predictModules(kyma *v1beta2.Kyma, f Fleet, now time.Time) (map[string]resolve.ModuleOutlook, error) {
	all := map[string]resolve.ModuleOutlook{}
	if kyma == nil {
		return all, nil
	}
	if plan.IsSkipped(kyma) {
		return publishedModules(kyma), nil
	}
	asked, err := f.Request(kyma)
	if err != nil {
		return nil, err
	}
	for _, p := range resolve.PredictModules(asked, f.Catalog, publishedVersions(kyma), now) {
		all[p.Module] = p
	}
	return all, nil
}

func compareModules(had, gets map[string]resolve.ModuleOutlook, versions map[string]string) []group {
	modules := maps.Clone(had)
	maps.Copy(modules, gets)
	var changes []group
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		before, after := had[module], gets[module]
		if before.Version == after.Version && before.HeldReason == after.HeldReason {
			continue
		}
		changes = append(changes, group{
			module, cmp.Or(after.Channel, before.Channel), versions[module], after.Version, after.HeldReason,
		})
	}
	return changes
}

func sortChanges(groups map[group][]string) []Change {
	changes := []Change{}
	for g, runtimes := range groups {
		slices.Sort(runtimes)
		changes = append(changes, Change{
			Module: g.module, Channel: g.channel, From: g.from, To: g.to, Held: g.held, Runtimes: runtimes,
		})
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.From, b.From),
			cmp.Compare(a.To, b.To), cmp.Compare(a.Held, b.Held))
	})
	return changes
}
