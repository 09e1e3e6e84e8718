package chaos

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// approveWaves approves waves as an operator would. For example, a wave waits for approval if its runtimes already had
// the version before a restore of the control plane.
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
		Runtimes []string `json:"runtimes"`
	} `json:"waiting"`
}

// deletions returns the IDs of the held removals whose runtimes are all deleted.
func (h heldRemovals) deletions(isDeleted func(id string) bool) (ids []string) {
	for _, w := range h.Waiting {
		if !slices.ContainsFunc(w.Runtimes, func(id string) bool { return !isDeleted(id) }) {
			ids = append(ids, w.ID)
		}
	}
	return ids
}

// approveDeletions approves held module removals of deleted Kymas as an operator would. The publisher holds them if the
// plan deletes more Kymas within ten minutes than the limits allow.
func (s *stage) approveDeletions(ctx context.Context) {
	s.mu.Lock()
	deleted := len(s.gone)
	s.mu.Unlock()
	if deleted == 0 {
		return
	}
	output, err := s.fleet.Ask(ctx, "removals", "-o", "json")
	var held heldRemovals
	if err != nil || json.Unmarshal([]byte(output), &held) != nil {
		return // the next call tries again
	}
	for _, id := range held.deletions(func(id string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.gone[id]
	}) {
		output, _ := s.fleet.Ask(ctx, "removals", "approve", id)
		s.story.Add("removals approve %s: %s", id, output)
	}
}
