package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// rolloutTimeout is the maximum time that a KillPlanner step waits for a rollout to start.
const rolloutTimeout = 20 * time.Second

// killPlanner kills the publisher that holds the planner's lease while a rollout is in progress. The function end
// starts the publisher again.
func (s *stage) killPlanner(ctx context.Context) (end func() error, err error) {
	var id string
	var unlock func()
	err = fleet.Until(ctx, rolloutTimeout, "a publisher plans a rollout", func() (bool, string) {
		var rollouts v1alpha1.RolloutList
		if err := s.fleet.Control.List(ctx, &rollouts, client.InNamespace(sample.Namespace)); err != nil {
			return false, err.Error()
		}
		if !isRollingOut(observedRollouts(rollouts.Items)) {
			return false, "no rollout is in progress"
		}
		if id = s.planner(ctx); id == "" {
			return false, "no publisher holds the lease"
		}
		unlock = s.locks.take(replica(id))
		if s.planner(ctx) == id {
			return true, ""
		}
		unlock() // another step killed the publisher while this step waited for the lock
		return false, "another publisher took the lease"
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errImpossible, err)
	}
	s.story.Add("publisher %s plans the rollout and is killed", id)
	start, err := s.kill(s.programs[id])
	return func() error {
		if err := start(); err != nil {
			return err
		}
		unlock()
		return nil
	}, err
}

// isRollingOut reports whether a rollout is in progress.
func isRollingOut(all []ObservedRollout) bool {
	return slices.ContainsFunc(all, func(r ObservedRollout) bool {
		return r.State == string(v1alpha1.RolloutProgressing) || r.State == string(v1alpha1.RolloutRollingBack)
	})
}

// planner returns the ID of the publisher that holds the planner's lease, or "" if no running publisher holds it.
func (s *stage) planner(ctx context.Context) string {
	for _, id := range s.shape.replicas() {
		if values, err := readMetrics(ctx, http.DefaultClient, "http://"+s.programs[id].metrics+"/metrics"); err == nil &&
			values[leaderMetric] == 1 {
			return id
		}
	}
	return ""
}

// leaderMetric is a publisher's metric that is 1 while the publisher holds the planner's lease.
const leaderMetric = `leader_election_master_status{name="` + lease + `"}`
