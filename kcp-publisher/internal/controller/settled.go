package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// A pass without pending work stays settled for settlesFor poll intervals, but at most for settlesAtMost or one poll
// interval, whichever is longer. After that time, a full pass runs even if nothing changed, because bundles and
// certificates must be renewed.
const (
	settlesFor    = 10
	settlesAtMost = 5 * time.Minute
)

// settledUntil returns the end of the time in which passes can be skipped, or zero. The time ends early if the runtime
// may become silent.
func settledUntil(
	before, after *v1beta2.Kyma, facts ingest.Facts, outcome publish.Outcome, now time.Time, interval time.Duration,
) time.Time {
	wrong := facts.PublishError != nil || facts.SecretsError != nil || facts.ReportRefused != nil ||
		facts.ReportUnread != nil || len(outcome.Problems) > 0 || len(outcome.Removals.Held) > 0
	busy := outcome.Pushed || outcome.Unrecorded || outcome.Deviation != nil || !after.DeletionTimestamp.IsZero()
	if wrong || busy || !meta.IsStatusConditionTrue(after.Status.Conditions, v1beta2.ConditionReporting) ||
		ingest.NeedsUpdate(before.Status, after.Status) {
		return time.Time{}
	}
	until := now.Add(min(settlesFor*interval, max(interval, settlesAtMost)))
	changes := []time.Time{plan.LastReportTime(after).Add(facts.Silence), ingest.NextUpdate(before.Status)}
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
