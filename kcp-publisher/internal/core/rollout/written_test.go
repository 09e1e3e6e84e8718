package rollout

import (
	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// checkParts fails the test if the gates of two shards make decisions that differ from the planner's.
func (w *world) checkParts(r *fleet.Rollout, step Step, facts []Runtime) {
	parts := [2][]Runtime{}
	for _, fact := range facts {
		at := w.random.IntN(len(parts))
		parts[at] = append(parts[at], fact)
	}
	written := []fleet.Rollout{*r.DeepCopy()}
	written[0].Status = step.Status
	policies, all := []fleet.RolloutPolicy{*w.policy}, NewGate(&written[0], step, facts)
	for _, part := range parts {
		followers := map[Track]Followers{}
		if len(part) > 0 {
			followers[w.track] = Followers{Channel: w.channel, Runtimes: part}
		}
		gate := RecordedGates(policies, written, followers, w.now)[w.track]
		for _, fact := range part {
			want, got := w.ask(all, fact), w.ask(gate, fact)
			if got != want {
				w.fail("%s: shard decides %+v for %s, want %+v: %+v", r.Name, got, fact.ID, want,
					step.Status)
			}
			if got := gate.CatalogVersion(fact.ID, fact.Version, w.channel); got != all.CatalogVersion(fact.ID, fact.Version,
				w.channel) {
				w.fail("%s: shard shows runtime %s version %s, want %s", r.Name, fact.ID, got,
					all.CatalogVersion(fact.ID, fact.Version, w.channel))
			}
		}
		if want, got := w.ask(all, Runtime{ID: "unknown", Version: "1.0.0"}),
			w.ask(gate, Runtime{ID: "unknown", Version: "1.0.0"}); got != want {
			w.fail("%s: shard decides %+v for an unknown runtime, want %+v", r.Name, got,
				want)
		}
	}
	w.checkEarlier(r, written, facts)
}

// ask returns the decision of a gate for a runtime.
func (w *world) ask(gate *Gate, runtime Runtime) Decision {
	if w.track.IsRemoval {
		return gate.DecideRemoval(runtime.ID, runtime.RemovalDecidedAt)
	}
	return gate.Decide(runtime.ID, runtime.Version)
}

// checkEarlier fails the test if a shard updates a runtime before the rollout's first step was written.
func (w *world) checkEarlier(r *fleet.Rollout, written []fleet.Rollout, facts []Runtime) {
	written[0].Status = fleet.RolloutStatus{}
	followers := map[Track]Followers{w.track: {Channel: w.channel, Runtimes: facts}}
	gate := RecordedGates(nil, written, followers, w.now)[w.track]
	for _, fact := range facts {
		if d := w.ask(gate, fact); d.Version == r.Spec.To && fact.Version != r.Spec.To &&
			!bundle.IsOlder(r.Spec.To, r.Spec.From) {
			w.fail("%s: %s gets %s before the first step was written", r.Name, fact.ID, d.Version)
		}
	}
}
