// Package train decides when a PromotionPolicy promotes a version from one channel to the next. It does not perform
// I/O.
//
// Plan returns the next status of each policy and the promotions to perform now. The status contains the time at which
// each channel got its version, and the versions that were rolled back. Therefore, a restart does not reset waiting
// times.
//
// A version is promoted only if every condition is known to be met. If data is missing, such as the report of a
// runtime, the version is not promoted.
package train

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Input contains the control plane objects that Plan needs.
type Input struct {
	// Policies contains all PromotionPolicies with their current statuses.
	Policies  []fleet.PromotionPolicy
	Metas     []v1beta2.ModuleReleaseMeta
	Templates []v1beta2.ModuleTemplate
	Rollouts  []fleet.Rollout
	// RolloutPolicies contains all RolloutPolicies.
	RolloutPolicies []fleet.RolloutPolicy
	// Fleet contains the numbers of runtimes by track (a module in a channel) and state. It is nil if some runtimes are
	// not known yet.
	Fleet Fleet
	Now   time.Time
}

// Promotion copies the module's version from the channel in From to the channel in To.
type Promotion struct {
	Policy string `json:"policy"`
	Module string `json:"module"`
	// Meta is the name of the ModuleReleaseMeta to change.
	Meta string `json:"meta"`
	From string `json:"from"`
	To   string `json:"to"`
	// PreviousVersion is the version of the channel in To before the promotion. Version is the channel's version after
	// the promotion.
	PreviousVersion string `json:"had"`
	Version         string `json:"version"`
	// ByCommand is true if the publisher does not promote the version itself, and an operator must run `kcp-publisher
	// train promote`.
	ByCommand bool `json:"byCommand,omitempty"`
}

// Outcome is the result of Plan for one policy.
type Outcome struct {
	Policy *fleet.PromotionPolicy
	// Status is the policy's new status.
	Status fleet.PromotionPolicyStatus
	// Due contains the promotions to perform now.
	Due []Promotion
	// Next is the next time at which a promotion can become due even if no object changes, or zero.
	Next time.Time
}

// maxModules limits the number of modules in the status of a policy.
const maxModules = 300

// Plan returns the outcomes for all policies, sorted by name. Equal inputs result in equal outcomes.
func Plan(in Input) []Outcome {
	w := newInputIndex(in)
	all := make([]Outcome, 0, len(w.policies))
	for _, policy := range w.policies {
		all = append(all, w.planPolicy(policy))
	}
	return all
}

// inputIndex contains an Input and indexes of its objects.
type inputIndex struct {
	Input
	// policies contains the policies that are not being deleted, sorted by name.
	policies []*fleet.PromotionPolicy
	metas    map[string][]*v1beta2.ModuleReleaseMeta // by module name
	rollouts map[rollout.Track][]*fleet.Rollout
	// moduleRollouts contains the Rollouts of each module in all channels, sorted by name.
	moduleRollouts map[string][]*fleet.Rollout
	// records contains the status entries of each module in all policies, sorted by the policy's name.
	records map[string][]fleet.ModuleTrain
	// catalog contains the ModuleTemplates after the first call to findTemplates.
	catalog *catalog.Snapshot
}

// findTemplates returns the ModuleTemplates of a module's version.
func (w *inputIndex) findTemplates(module, version string) ([]*v1beta2.ModuleTemplate, error) {
	if w.catalog == nil {
		indexed, err := catalog.New(w.Templates, nil)
		if err != nil {
			return nil, err
		}
		w.catalog = indexed
	}
	return w.catalog.VersionTemplates(module, version), nil
}

func newInputIndex(in Input) *inputIndex {
	w := &inputIndex{
		Input:          in,
		metas:          map[string][]*v1beta2.ModuleReleaseMeta{},
		rollouts:       map[rollout.Track][]*fleet.Rollout{},
		moduleRollouts: map[string][]*fleet.Rollout{},
		records:        recordsByModule(in.Policies),
	}
	for i := range in.Policies {
		if p := &in.Policies[i]; p.DeletionTimestamp.IsZero() {
			w.policies = append(w.policies, p)
		}
	}
	slices.SortFunc(w.policies, func(a, b *fleet.PromotionPolicy) int { return cmp.Compare(a.Name, b.Name) })
	for i := range in.Metas {
		if m := &in.Metas[i]; m.DeletionTimestamp.IsZero() {
			w.metas[m.Spec.ModuleName] = append(w.metas[m.Spec.ModuleName], m)
		}
	}
	for i := range in.Rollouts {
		r := &in.Rollouts[i]
		if rollout.IsRemoval(r.Spec) {
			continue
		}
		track := rollout.TrackOf(r)
		w.rollouts[track] = append(w.rollouts[track], r)
		w.moduleRollouts[r.Spec.Module] = append(w.moduleRollouts[r.Spec.Module], r)
	}
	for _, own := range w.moduleRollouts {
		slices.SortFunc(own, func(a, b *fleet.Rollout) int { return cmp.Compare(a.Name, b.Name) })
	}
	return w
}

// recordsByModule groups the status entries of all policies by module. It includes policies that are being deleted,
// because their records stay valid.
func recordsByModule(policies []fleet.PromotionPolicy) map[string][]fleet.ModuleTrain {
	sorted := slices.SortedFunc(slices.Values(policies), func(a, b fleet.PromotionPolicy) int {
		return cmp.Compare(a.Name, b.Name)
	})
	records := map[string][]fleet.ModuleTrain{}
	for _, p := range sorted {
		for _, m := range p.Status.Modules {
			records[m.Name] = append(records[m.Name], m)
		}
	}
	return records
}

func (w *inputIndex) planPolicy(policy *fleet.PromotionPolicy) Outcome {
	out := Outcome{Policy: policy, Status: *policy.Status.DeepCopy()}
	out.Status.ObservedGeneration = policy.Generation
	modules := w.selectedModules(policy)
	var problems []string
	var calendar *calendar
	var err error
	if calendar, err = newCalendar(policy.Spec.Calendar); err != nil {
		problems = append(problems, "spec.calendar."+err.Error())
	}
	if len(modules) > maxModules {
		problems = append(problems,
			fmt.Sprintf("spec.modules selects %d modules, limit %d: list modules by name", len(modules), maxModules))
		modules = modules[:maxModules]
	}
	before := map[string]fleet.ModuleTrain{}
	for _, m := range policy.Status.Modules {
		before[m.Name] = m
	}
	out.Status.Modules = nil
	invalid := strings.Join(problems, "; ")
	var missing []string
	for _, name := range modules {
		c := &chain{
			inputIndex: w,
			policy:     policy,
			module:     name,
			calendar:   calendar,
			invalid:    invalid,
			previous:   before[name],
		}
		switch metas := w.metas[name]; len(metas) {
		case 0:
			missing = append(missing, name)
		case 1:
			c.meta = metas[0]
		default:
			problems = append(problems,
				fmt.Sprintf("module %s has %d ModuleReleaseMetas: remove all except one", name, len(metas)))
		}
		c.planModule(&out)
		delete(before, name)
	}
	out.Status.Modules = append(out.Status.Modules, unselectedModules(before, maxModules-len(out.Status.Modules))...)
	slices.SortFunc(out.Status.Modules, func(a, b fleet.ModuleTrain) int { return strings.Compare(a.Name, b.Name) })
	setCondition(&out.Status, policy.Generation, problems, missing, w.Now)
	return out
}

// unselectedModules returns at most limit status entries of modules that the policy no longer selects. They contain the
// rejected versions and the last version of each channel, which still apply if the policy selects the module again.
func unselectedModules(unselected map[string]fleet.ModuleTrain, limit int) []fleet.ModuleTrain {
	var kept []fleet.ModuleTrain
	for _, name := range slices.Sorted(maps.Keys(unselected)) {
		last := lastVersions(unselected[name])
		entry := fleet.ModuleTrain{
			Name: name, Rejected: unselected[name].Rejected, Removed: last[max(0, len(last)-maxRejected):],
		}
		if len(entry.Rejected)+len(entry.Removed) > 0 && len(kept) < limit {
			kept = append(kept, entry)
		}
	}
	return kept
}

// selectedModules returns the modules that a policy promotes. If spec.modules is empty, it returns all modules with a
// version in one of the policy's channels.
func (w *inputIndex) selectedModules(policy *fleet.PromotionPolicy) []string {
	if len(policy.Spec.Modules) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(policy.Spec.Modules)))
	}
	var all []string
	for name, metas := range w.metas {
		for _, meta := range metas {
			if slices.ContainsFunc(policy.Spec.Channels,
				func(c fleet.TrainChannel) bool { return channelVersion(meta, c.Name) != "" }) {
				all = append(all, name)
				break
			}
		}
	}
	slices.Sort(all)
	return all
}

// promotingPolicy returns the name of the first policy that promotes a module to a channel. The parameter to is the
// name of the channel.
func (w *inputIndex) promotingPolicy(module, to string) string {
	for _, p := range w.policies {
		if len(p.Spec.Modules) > 0 && !slices.Contains(p.Spec.Modules, module) {
			continue
		}
		for i, c := range p.Spec.Channels {
			if i > 0 && c.Name == to {
				return p.Name
			}
		}
	}
	return ""
}

func channelVersion(meta *v1beta2.ModuleReleaseMeta, channel string) string {
	if meta == nil {
		return ""
	}
	for _, c := range meta.Spec.Channels {
		if c.Channel == channel {
			return c.Version
		}
	}
	return ""
}
