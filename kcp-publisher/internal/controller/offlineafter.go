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

// defaultReportInterval is the default interval at which an agent sends its report again if it has not changed.
// defaultPollInterval is the default interval at which an agent polls for bundles.
const defaultReportInterval, defaultPollInterval = 5 * time.Minute, time.Minute

// maxQuietTime returns the longest time between two reports that the publisher receives from a healthy runtime. agent
// is the agents' poll interval, and report is their report interval; 0 stands for the default. poll is the publisher's
// poll interval.
func maxQuietTime(agent, report, poll time.Duration) time.Duration {
	quiet := cmp.Or(report, defaultReportInterval) + cmp.Or(agent, defaultPollInterval) + restingInterval(poll)
	return quiet + quiet/10
}

// warnOfflineAfter emits an Event if a RolloutPolicy's offlineAfter is so short that healthy runtimes count as offline.
// It emits one Event per policy generation. At the first check after the process started, it only logs the problem.
func (r *Rollouts) warnOfflineAfter(ctx context.Context, policies []fleet.RolloutPolicy) {
	if r.remote != nil {
		return // with shards, the planner checks the policies
	}
	checked := make(map[types.UID]int64, len(policies))
	for i := range policies {
		p := &policies[i]
		checked[p.UID] = p.Generation
		if before, is := r.checkedPolicies[p.UID]; is && before == p.Generation {
			continue
		}
		why := rollout.OfflineAfterProblem(p.Spec.Course, r.maxQuiet)
		if why == "" {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("a policy counts healthy runtimes as offline", "policy", p.Name, "reason", why)
		if r.checkedPolicies != nil {
			r.Events.Eventf(p, nil, corev1.EventTypeWarning, fleet.ReasonOfflineAfterTooShort, "Rollout", "%s",
				eventNote(why))
		}
	}
	r.checkedPolicies = checked
}

func restingInterval(poll time.Duration) time.Duration {
	return max(poll, min(restingFactor*poll, maxRestingPoll))
}
