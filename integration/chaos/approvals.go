package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// approveWaves approves waves as an operator would. For example, a wave waits for approval if its runtimes already had
// the version before the control plane was restored.
func (s *stage) approveWaves(ctx context.Context, rollouts []v1alpha1.Rollout) {
	for _, r := range rollouts {
		for _, wave := range r.Status.Waves {
			if r.Status.State == v1alpha1.RolloutWaiting && wave.State == v1alpha1.WaveWaiting {
				output, _ := s.fleet.Ask(ctx, "rollout", "approve", r.Name, wave.Name)
				s.story.Add("rollout approve %s %s: %s", r.Name, wave.Name, output)
			}
		}
	}
}

// heldRemovals is the output of `kcp-publisher removals -o json`.
type heldRemovals struct {
	Waiting []struct {
		ID       string   `json:"id"`
		Module   string   `json:"module"`
		Runtimes []string `json:"runtimes"`
	} `json:"waiting"`
}

// wanted returns the IDs of the held removals that operators want. Operators want removals that result from Kyma
// deletions, and the removal of module mailer after it was mandatory. The function has reports whether a runtime must
// have a module.
func (h heldRemovals) wanted(has func(id, module string) bool) (ids []string) {
	for _, w := range h.Waiting {
		if len(w.Runtimes) > 0 && (w.Module == "" || w.Module == mailer) &&
			!slices.ContainsFunc(w.Runtimes, func(id string) bool { return has(id, cmp.Or(w.Module, scaler)) }) {
			ids = append(ids, w.ID)
		}
	}
	return ids
}

// approveRemovals approves held removals as an operator does. The publisher holds them if the plan deletes more Kymas
// within ten minutes than the limits allow, or if module mailer was mandatory.
func (s *stage) approveRemovals(ctx context.Context) {
	output, err := s.fleet.Ask(ctx, "removals", "-o", "json")
	var held heldRemovals
	if err != nil || json.Unmarshal([]byte(output), &held) != nil {
		return // the next call tries again
	}
	for _, id := range held.wanted(func(id, module string) bool { return s.checker.Wanted(id)[module] }) {
		output, _ := s.fleet.Ask(ctx, "removals", "approve", id)
		s.story.Add("removals approve %s: %s", id, output)
	}
}
