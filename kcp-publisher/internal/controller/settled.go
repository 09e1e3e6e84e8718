package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// settlesFor is for how many poll intervals a look that found nothing to do stands for those that follow. Time alone
// may change what is due: bundles and certificates are renewed, and the registry and the components are looked at
// again.
//
// Polls may be minutes apart where notifications arrive; then it stands for settlesAtMost, or until the next poll.
const (
	settlesFor    = 10
	settlesAtMost = 5 * time.Minute
)

// settles returns until when a look at a Kyma stands for the next ones, zero when it does not: something was written,
// is wrong or is waited for. A runtime that may fall silent is looked at when that happens, and one that takes no newer
// bundle when that is no health any more.
func settles(before, after *v1beta2.Kyma, facts ingest.Facts, outcome publish.Outcome, now time.Time, interval time.Duration) time.Time {
	wrong := facts.PublishError != nil || facts.SecretsError != nil || facts.ReportRefused != nil || facts.ReportUnread != nil || len(outcome.Problems) > 0 || len(outcome.Removals.Held) > 0
	busy := outcome.Pushed || outcome.Unrecorded || outcome.Deviation != nil || !after.DeletionTimestamp.IsZero()
	if wrong || busy || !meta.IsStatusConditionTrue(after.Status.Conditions, v1beta2.ConditionReporting) || ingest.Notable(before.Status, after.Status) {
		return time.Time{}
	}
	until := now.Add(min(settlesFor*interval, max(interval, settlesAtMost)))
	changes := []time.Time{plan.Heard(after).Add(facts.Silence), ingest.NotedUntil(before.Status)}
	if taken := ingest.TakenUntil(after.Status, facts.Silence); now.Before(taken) {
		changes = append(changes, taken)
	}
	for _, earlier := range changes {
		if earlier.Before(until) {
			until = earlier
		}
	}
	return until
}
