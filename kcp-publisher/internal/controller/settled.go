package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// After a reconcile that leaves no work pending, later reconciles of the Kyma are skipped until one of their inputs
// changes. A complete reconcile follows after settledPolls poll intervals, because bundles and certificates must be
// renewed. This period is at most maxSettled, or one poll interval if that is longer.
const (
	settledPolls = 10
	maxSettled   = 5 * time.Minute
)

// settledUntil returns the time until which reconciles of the Kyma can be skipped if no input changes. It returns zero
// if the next reconcile must not be skipped. The time is earlier if the runtime may count as silent before.
func settledUntil(
	before, after *v1beta2.Kyma, facts ingest.Facts, outcome publish.Outcome, now time.Time, interval time.Duration,
) time.Time {
	wrong := facts.PublishError != nil || facts.SecretsError != nil || facts.ReportRefused != nil ||
		facts.ReportUnread != nil || len(outcome.Problems) > 0 || len(outcome.Removals.HeldReasons) > 0
	busy := outcome.IsPushed || outcome.IsUnrecorded || outcome.Deviation != nil || !after.DeletionTimestamp.IsZero()
	if wrong || busy || !meta.IsStatusConditionTrue(after.Status.Conditions, v1beta2.ConditionReporting) ||
		ingest.NeedsUpdate(before.Status, after.Status) {
		return time.Time{}
	}
	until := now.Add(min(settledPolls*interval, max(interval, maxSettled)))
	changes := []time.Time{plan.LastReportTime(after).Add(facts.SilenceTimeout), ingest.NextUpdate(before.Status)}
	if taken := ingest.ReportDeadline(after.Status, facts.SilenceTimeout); now.Before(taken) {
		changes = append(changes, taken)
	}
	for _, earlier := range changes {
		if earlier.Before(until) {
			until = earlier
		}
	}
	return until
}
