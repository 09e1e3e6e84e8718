package controller

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// agentsReport is how often agents report although nothing changed, and agentsPoll how often they look for a bundle,
// unless they are told otherwise.
const agentsReport, agentsPoll = 5 * time.Minute, time.Minute

// quietAtMost returns how long a runtime that works may go without being heard, with a tenth for jitter: agents report
// at one of their polls, and a publisher that expects nothing asks at one of its own. agent and report are the settings
// of agents, 0 for their own.
func quietAtMost(agent, report, poll time.Duration) time.Duration {
	quiet := cmp.Or(report, agentsReport) + cmp.Or(agent, agentsPoll) + restingPollOf(poll)
	return quiet + quiet/10
}

// warnOf complains once of each generation of a policy that takes healthy runtimes for offline. What the first look
// finds may have been told by the process before, and is only logged.
func (r *Rollouts) warnOf(ctx context.Context, policies []fleet.RolloutPolicy) {
	if r.shard != nil {
		return // the planner does
	}
	looked := make(map[types.UID]int64, len(policies))
	for i := range policies {
		p := &policies[i]
		looked[p.UID] = p.Generation
		if before, is := r.looked[p.UID]; is && before == p.Generation {
			continue
		}
		why := rollout.Impatient(p.Spec.Course, r.quiet)
		if why == "" {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("a policy counts runtimes that work as offline", "policy", p.Name, "reason", why)
		if r.looked != nil {
			r.Events.Eventf(p, nil, corev1.EventTypeWarning, fleet.ReasonOfflineAfterTooShort, "Rollout", "%s", noted(why))
		}
	}
	r.looked = looked
}
