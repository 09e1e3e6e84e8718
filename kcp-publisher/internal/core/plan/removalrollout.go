package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// trackedRemoval is a module that a runtime loses or has lost although the runtime did not request this, for example
// because the catalog hides the module. Rollouts decide when the runtime loses it.
type trackedRemoval struct {
	track rollout.Track
	// pending is the publisher's decision about the removal while the runtime still has the module, or nil.
	pending *v1beta2.ModuleRemoval
	// given is the record of the rollout that removed the module, or nil. The rollout may have restored the module
	// since then. isRemoved is true if the last bundle does not contain the module.
	given     *v1beta2.GivenVersion
	isRemoved bool
}

// removalRules contains the parts of a View that decide about removals.
type removalRules struct {
	gates    rollout.Gates
	policies []fleet.RolloutPolicy
}

// trackedRemovals returns the removals in a Kyma's runtime that rollouts can delay or undo, sorted by module.
func trackedRemovals(kyma *v1beta2.Kyma) []trackedRemoval {
	status := kyma.Status.Runtime
	if status == nil || status.Published == nil || !kyma.DeletionTimestamp.IsZero() {
		return nil
	}
	found := map[string]trackedRemoval{}
	for i := range status.Removals {
		d := &status.Removals[i]
		if _, has := status.Published.Versions[d.Module]; has && !d.Published {
			found[d.Module] = trackedRemoval{pending: d}
		}
	}
	for module, given := range status.Published.Given {
		if given.RemovedVersion == "" {
			continue
		}
		r := found[module]
		_, has := status.Published.Versions[module]
		r.given, r.isRemoved = new(given), !has
		found[module] = r
	}
	if len(found) == 0 {
		return nil
	}
	request, err := parseRequest(kyma)
	if err != nil {
		return nil // the publisher does not publish bundles for a Kyma with invalid annotations
	}
	var all []trackedRemoval
	for _, module := range slices.Sorted(maps.Keys(found)) {
		r := found[module]
		r.track = rollout.Track{Module: module, Channel: removalChannel(request.Requested, *status.Published, module),
			IsRemoval: true}
		if r.isRemoved && r.track.Channel != "" && !requestsModule(request.Requested, module) {
			continue // the runtime does not want the module anymore, so no rollout restores it
		}
		all = append(all, r)
	}
	return all
}

// removalChannel returns the channel of a module that a runtime loses or has lost. It returns "" for a module that was
// mandatory.
func removalChannel(requested v1beta2.KymaSpec, published v1beta2.PublishedBundle, module string) string {
	if given := published.Given[module]; given.RemovedVersion != "" {
		return given.RemovedChannel
	}
	if slices.Contains(published.Mandatory, module) {
		return ""
	}
	for _, m := range requested.Modules {
		if m.Name == module {
			return cmp.Or(m.Channel, requested.Channel)
		}
	}
	return ""
}

// runtime returns the state of the module in the runtime, as input for the rollout of the removal.
func (r trackedRemoval) runtime(kyma *v1beta2.Kyma, id string, last silence.LastReport) rollout.Runtime {
	runtime := moduleRuntime(kyma, id, r.track.Module, last)
	if r.isRemoved {
		runtime.Version = fleet.VersionRemoved
		if d := FindRemovalDecision(kyma, r.track.Module); d != nil {
			runtime.RemovalDecidedAt = d.Time.Time
		}
	}
	if r.pending != nil {
		runtime.RemovalDecidedAt, runtime.RemovalHeld = r.pending.Time.Time, r.pending.Decision == v1beta2.RemovalHeld
	}
	return runtime
}

// decision returns the decision of a rollout about the removal. It returns false if the removal does not have to wait
// and the module is not restored.
func (r trackedRemoval) decision(rules removalRules, runtime string) (rollout.Decision, bool) {
	gate, decided := rules.gates[r.track], time.Time{}
	if r.pending != nil {
		decided = r.pending.Time.Time
	}
	if gate == nil {
		isPlanned := r.pending != nil && rollout.FindPolicy(rules.policies, r.track) != nil
		return rollout.PlannedRemoval, isPlanned
	}
	d := gate.DecideRemoval(runtime, decided)
	switch {
	case d.ReplacedVersion != "" && r.given != nil:
		d.Version = r.given.RemovedVersion
		return d, true
	case r.isRemoved || r.pending == nil:
		return d, false
	}
	d.ReplacedVersion = ""
	return d, d.HeldReason != ""
}

// decisions returns the decisions about removals that wait for a rollout and about modules that a rollout restores. The
// map is keyed by module.
func (rules removalRules) decisions(kyma *v1beta2.Kyma) map[string]rollout.Decision {
	var decisions map[string]rollout.Decision
	for _, r := range trackedRemovals(kyma) {
		d, applies := r.decision(rules, RuntimeID(kyma))
		if !applies {
			continue
		}
		if decisions == nil {
			decisions = map[string]rollout.Decision{}
		}
		decisions[r.track.Module] = d
	}
	return decisions
}

// addTo extends the map given with the modules that a rollout removes or restores with the published bundle.
func (rules removalRules) addTo(
	given map[string]v1beta2.GivenVersion, published PublishedBundle, kyma *v1beta2.Kyma,
) map[string]v1beta2.GivenVersion {
	for _, r := range trackedRemovals(kyma) {
		module, gate := r.track.Module, rules.gates[r.track]
		before, after := kyma.Status.Runtime.Published.Versions[module], published.Versions[module]
		if gate == nil || (before == "") == (after == "") {
			continue
		}
		d, applies := r.decision(rules, RuntimeID(kyma))
		record := gate.Select(published.Predicate.IssuedAt)
		record.RemovedVersion, record.RemovedChannel = before, r.track.Channel
		switch {
		case after != "" && d.ReplacedVersion == "", after == "" && applies:
			continue // the rollout did not cause this change
		case after != "":
			record.RemovedVersion = r.given.RemovedVersion
		}
		if given == nil {
			given = map[string]v1beta2.GivenVersion{}
		}
		given[module] = record
	}
	return given
}

// addRemovalFollowers adds a runtime to the tracks of the modules that it loses or has lost.
func addRemovalFollowers(
	kyma *v1beta2.Kyma, id string, last silence.LastReport, tracks map[rollout.Track]*rollout.Followers,
) {
	for _, r := range trackedRemovals(kyma) {
		if tracks[r.track] == nil {
			tracks[r.track] = &rollout.Followers{}
		}
		seen := tracks[r.track]
		if r.pending != nil || r.isRemoved {
			seen.Channel = fleet.VersionRemoved
		}
		seen.Runtimes = append(seen.Runtimes, r.runtime(kyma, id, last))
	}
}
