package controller

import (
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// After a reconcile that leaves no work pending, later reconciles for the Kyma are skipped until one of their inputs
// changes. A complete reconcile follows after settledPolls poll intervals, because bundles and certificates must be
// renewed. This period is at most maxSettled, or one poll interval if that is longer.
const (
	settledPolls = 10
	maxSettled   = 5 * time.Minute
)

// settledUntil returns the time until which reconciles for the Kyma can be skipped if no input changes. It returns zero
// if the next reconcile must not be skipped. If the runtime could count as silent earlier, it returns that time.
func settledUntil(
	before, after *v1beta2.Kyma, facts ingest.Facts, outcome publish.Outcome, now time.Time, interval time.Duration,
) time.Time {
	wrong := facts.PublishError != nil || facts.SecretsError != nil || facts.ReportRefused != nil ||
		facts.ReportUnread != nil || len(outcome.Problems) > 0 || len(outcome.Removals.HeldReasons) > 0
	busy := outcome.IsPushed || outcome.IsUnrecorded || outcome.Deviation != nil || !after.DeletionTimestamp.IsZero()
	if wrong || busy || !plan.HasCurrentReport(after.Status.Conditions) ||
		ingest.NeedsUpdate(before.Status, after.Status) {
		return time.Time{}
	}
	until := now.Add(min(settledPolls*interval, max(interval, maxSettled)))
	last := silence.LastReport{KnownAt: plan.LastReportTime(after)}
	changes := []time.Time{last.SilentAfter(facts.SilenceTimeout), ingest.NextUpdate(before.Status)}
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

// canPostpone reports whether the first reconcile of a Kyma in this process can postpone reading the report. A restart
// then causes only one registry request per idle runtime instead of two.
func (k *Kymas) canPostpone(before, kyma *v1beta2.Kyma, facts ingest.Facts, input fleetstate.ReconcileInput) bool {
	switch {
	case !plan.IsResting(kyma), plan.ReconcileRequest(kyma) != "", input.View.IsAwaited(plan.RuntimeID(kyma)),
		facts.IsCarried:
		return false
	case kyma.Status.ObservedGeneration != kyma.Generation, input.OwnChanges != 0,
		!equality.Semantic.DeepEqual(before.Status, kyma.Status):
		return false
	}
	if !plan.RecordedReport(kyma).MayArrive(0, k.Now()) {
		return false // the runtime may be silent
	}
	for _, c := range kyma.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			return false
		}
	}
	return true
}

// firstPoll returns the time of the first poll for a runtime's report. The time is random, so that a new process does
// not read all of the fleet's reports at once.
func (k *Kymas) firstPoll(kyma *v1beta2.Kyma) time.Time {
	return k.Now().Add(rand.N(max(1, min(k.pollInterval(kyma), maxRestingPoll))))
}

const (
	// While a rollout is waiting for a runtime's report, the publisher reads the report awaitedPolls times per poll
	// interval.
	awaitedPolls = 6
	// If rollouts await reports from more than maxAwaited runtimes, the publisher reads each of these reports less
	// often.
	maxAwaited = 100
	// The publisher reads idle runtimes' reports less often: it multiplies the poll interval by restingFactor, up to
	// maxRestingPoll.
	restingFactor  = 2
	maxRestingPoll = time.Minute
)

// pollInterval returns the interval at which the publisher reads the runtime's report.
func (k *Kymas) pollInterval(kyma *v1beta2.Kyma) time.Duration {
	view := k.Rollouts.View()
	if !view.IsAwaited(plan.RuntimeID(kyma)) {
		if plan.IsResting(kyma) {
			return restingInterval(k.PollInterval)
		}
		return k.PollInterval
	}
	soon := k.PollInterval / awaitedPolls
	return min(soon*time.Duration(max(len(view.AwaitedRuntimes), maxAwaited))/maxAwaited, k.PollInterval)
}

// maxReportAge returns the maximum age of a report that a reconcile can use without reading the registry again. If
// isDue is true, a bundle must be published, and the maximum age is higher, because publishing takes precedence.
func (k *Kymas) maxReportAge(kyma *v1beta2.Kyma, isDue bool) time.Duration {
	poll := k.pollInterval(kyma)
	switch {
	case plan.ReconcileRequest(kyma) != "":
		return 0
	case isDue:
		return 2 * max(poll, k.PollInterval)
	}
	return min(poll, k.PollInterval) / 2
}

// postponeRead returns the time to which reading a runtime's first report is postponed. The result is the proposed
// time, or the time from an earlier call. It returns zero if the read cannot be postponed, because the report was
// already read or a notification about it has arrived.
func (r *reportReader) postponeRead(kyma *v1beta2.Kyma, proposed time.Time) time.Time {
	known := r.lastKnown(kyma)
	if !known.AskedAt.IsZero() || r.fleet.GetCurrent(kyma).NotifiedCount != 0 {
		return time.Time{}
	}
	if known.PostponedTo.IsZero() {
		known.PostponedTo = proposed
		r.storeReport(kyma, known)
	}
	return known.PostponedTo
}
