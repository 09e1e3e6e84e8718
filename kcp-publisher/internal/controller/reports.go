package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover"
)

// reportReader fetches and verifies each runtime's latest report. It is safe for concurrent use.
type reportReader struct {
	place store.Store
	now   func() time.Time
	fleet *fleetstate.Fleet
	// slimmer reduces the memory for reports: it stores equal parts of several reports only once.
	slimmer *Slimmer

	mu sync.Mutex // guards startedAt
	// startedAt is the time at which this process first read a report, or zero.
	startedAt time.Time
}

func newReports(place store.Store, now func() time.Time, fleet *fleetstate.Fleet, slimmer *Slimmer) *reportReader {
	return &reportReader{place: place, now: now, fleet: fleet, slimmer: slimmer}
}

type digestAnswer struct {
	askedAt time.Time
	// notified is the value of Runtime.NotifiedCount before the request to the registry.
	notified int64
	digest   digest.Digest
	err      error
}

// askDigest returns the digest of the latest report from a Kyma's runtime. If the last request to the registry is not
// older than maxAge, it returns the known digest.
func (r *reportReader) askDigest(
	ctx context.Context, kyma *v1beta2.Kyma, known fleetstate.Report, maxAge time.Duration,
) digestAnswer {
	record := r.fleet.Get(client.ObjectKeyFromObject(kyma))
	notified := record.NotifiedCount
	if r.isFresh(record, known, maxAge) {
		return digestAnswer{known.AskedAt, notified, known.Digest, nil}
	}
	newest := digestAnswer{notified: notified}
	repository, err := r.place.Reading(ctx, bundle.ReportRepository(plan.RuntimeID(kyma)))
	if err == nil {
		newest.digest, err = store.Head(ctx, repository, bundle.TagLatest)
	}
	newest.askedAt, newest.err = r.now(), err
	if err == nil && newest.digest == known.Digest {
		known.AskedAt, known.NotifiedCount, known.ReadError = newest.askedAt, notified, nil
		r.storeReport(kyma, known)
	}
	return newest
}

// isAnnounced reports whether a notification has announced a newer report than the known one, so that the newer
// report must be fetched.
func (r *reportReader) isAnnounced(kyma *v1beta2.Kyma, known fleetstate.Report) bool {
	record := r.fleet.Get(client.ObjectKeyFromObject(kyma))
	return record.NotifiedCount != known.NotifiedCount && !record.MustHoldReports(r.now())
}

// isFresh reports whether the known report can be used without a request to the registry. If the runtime's reports have
// caused too many bundles recently, a report older than maxAge can also be used, except in a reconcile that an operator
// requested.
func (r *reportReader) isFresh(record fleetstate.Runtime, known fleetstate.Report, maxAge time.Duration) bool {
	return known.IsFresh(record.NotifiedCount, maxAge, r.now()) ||
		maxAge > 0 && !known.AskedAt.IsZero() && record.MustHoldReports(r.now())
}

// fetchReport returns the latest report from a Kyma's runtime and the previously known report. If the known report is
// fresh enough, it does not read the registry. If reply is set, fetchReport uses the digest in it instead of requesting
// the digest again. It returns an error only if the registry did not respond. If the publisher refuses the report or
// the registry cannot return it, newest contains the reason, because only this runtime is affected.
func (r *reportReader) fetchReport(
	ctx context.Context, kyma *v1beta2.Kyma, reporter bundle.Reporter, maxAge time.Duration, reply *digestAnswer,
) (newest, before fleetstate.Report, err error) {
	before = r.lastKnown(kyma)
	record := r.fleet.Get(client.ObjectKeyFromObject(kyma))
	notified := record.NotifiedCount
	r.recordStart()
	if reply == nil && r.isFresh(record, before, maxAge) {
		return before, before, nil
	}
	if reply != nil {
		notified = reply.notified
	}
	if last := before.Accepted; last != nil {
		reporter.Known = last.Content
		if fleetstate.IsSameKey(last.Key, reporter.Key) {
			reporter.LastSequence = max(reporter.LastSequence, last.Sequence) // the Kyma's status may contain an older number
		}
	} else if status := kyma.Status.Runtime; status != nil && status.Observed != nil {
		// The status already contains this report's data, so the report does not need a check.
		reporter.Known = digest.Digest(status.Observed.Report)
	}
	known, again := before.Digest, r.mustVerifyAgain(kyma, before)
	if again || record.NotifiedCount != before.NotifiedCount {
		known = "" // fetch the report without reading its digest first
	}
	found, fetched, err := r.pullReport(ctx, reporter.Runtime, known, reply)
	if err != nil && store.IsUnavailable(err) {
		return before, before, err
	}
	newest = before
	newest.AskedAt, newest.NotifiedCount, newest.ReadError = r.now(), notified, nil
	switch {
	case refusal.Of(err) != nil:
		// The report was not fetched, because it is too large.
		newest.Digest, newest.Refused, newest.VerifiedAt = found, refusal.Of(err), newest.AskedAt
	case err != nil && !errors.Is(err, store.ErrNotFound):
		newest.ReadError = store.WithoutDetail(err)
	case err == nil && (again || found != before.Digest):
		newest.Digest, newest.VerifiedAt = found, newest.AskedAt
		r.verify(kyma, &newest, before, fetched, reporter)
	}
	r.storeReport(kyma, newest)
	return newest, before, nil
}

// verify verifies a fetched report and adds the result to newest.
func (r *reportReader) verify(
	kyma *v1beta2.Kyma, newest *fleetstate.Report, before fleetstate.Report, fetched bundle.Fetched,
	reporter bundle.Reporter,
) {
	accepted, err := bundle.VerifyReport(fetched, reporter)
	if newest.Refused = refusal.Of(err); newest.Refused == nil {
		r.slimmer.slimReport(&accepted)
		newest.Accepted, newest.ArrivedAt = &accepted, before.ArrivalTime(kyma.Status.Runtime, accepted, r.now())
		return
	}
	// Shorten the detail, because it can contain long text from the refused report.
	newest.Refused.Detail = bundle.Bounded(newest.Refused.Detail, bundle.MaxMessageBytes)
	if newest.IsRepeatedRefusal(before) && plan.ReconcileRequest(kyma) == "" {
		// Keep the detail. It can contain the current time, and a changed detail would update the Kyma's status.
		newest.Refused = before.Refused
	}
}

// verifyInterval is the interval at which the publisher verifies a refused report again. The cause of the refusal can
// be outside the report, for example the control plane's clock, a missing token key, or the list of revoked keys.
const verifyInterval = 5 * time.Minute

// mustVerifyAgain reports whether the next request to the registry must verify the report again although it has not
// changed.
func (r *reportReader) mustVerifyAgain(kyma *v1beta2.Kyma, known fleetstate.Report) bool {
	return known.Refused != nil &&
		(plan.ReconcileRequest(kyma) != "" || !r.now().Before(known.VerifiedAt.Add(verifyInterval)))
}

func (r *reportReader) recordStart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.startedAt.IsZero() {
		r.startedAt = r.now()
	}
}

// lastReport returns the time of a runtime's last report. It uses the report in this publisher's memory or in the
// Kyma's status, whichever is newer.
func (r *reportReader) lastReport(kyma *v1beta2.Kyma) silence.LastReport {
	r.recordStart()
	known := r.lastKnown(kyma)
	if known.Accepted == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return plan.LastReport(kyma, nil, r.startedAt)
	}
	return plan.LastReport(
		kyma,
		&plan.ReceivedReport{
			CreatedAt:  known.Accepted.Time,
			ArrivedAt:  r.withoutMonotonic(known.ArrivedAt),
			IsRecorded: isRecorded(kyma, *known.Accepted),
		},
		time.Time{},
	)
}

func isRecorded(kyma *v1beta2.Kyma, accepted bundle.AcceptedReport) bool {
	status := kyma.Status.Runtime
	return status != nil && status.Observed != nil && status.Observed.Report == accepted.Content.String()
}

// unrecordedUntil returns the latest time at which the previous publisher process may have received a report without
// writing it to the Kyma's status. It returns zero if this process has already accepted a report from the runtime.
func (r *reportReader) unrecordedUntil(kyma *v1beta2.Kyma) time.Time {
	known := r.lastKnown(kyma)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known.Accepted != nil {
		return time.Time{}
	}
	return plan.LatestUnrecorded(kyma, r.startedAt)
}

// withoutMonotonic returns a time without its monotonic clock reading. If the time is in the future, it returns the
// current time.
func (r *reportReader) withoutMonotonic(at time.Time) time.Time {
	at = at.Round(0)
	if now := r.now().Round(0); now.Before(at) {
		return now
	}
	return at
}

// pullReport reads the digest of the latest report. If it differs from the digest of the known report, pullReport also
// fetches the latest report. If known is empty, it fetches the latest report with a single request.
func (r *reportReader) pullReport(
	ctx context.Context, runtime string, known digest.Digest, reply *digestAnswer,
) (digest.Digest, bundle.Fetched, error) {
	if reply != nil && (reply.err != nil || reply.digest == known) {
		return reply.digest, bundle.Fetched{}, reply.err
	}
	repository, err := r.place.Reading(ctx, bundle.ReportRepository(runtime))
	if err != nil {
		return "", bundle.Fetched{}, err
	}
	if known == "" {
		fetched, err := store.Fetch(ctx, repository, bundle.TagLatest)
		if err != nil {
			return fetched.Descriptor.Digest, bundle.Fetched{}, err
		}
		return digest.FromBytes(fetched.Bytes), fetched, nil
	}
	var newest digest.Digest
	if reply != nil {
		newest = reply.digest
	} else if newest, err = store.Head(ctx, repository, bundle.TagLatest); err != nil || newest == known {
		return newest, bundle.Fetched{}, err
	}
	fetched, err := store.Fetch(ctx, repository, newest.String())
	return newest, fetched, err
}

// lastKnown returns the last report that this process read. It returns a zero Report if the Kyma's status contains a
// newer report, which another publisher process has read.
func (r *reportReader) lastKnown(kyma *v1beta2.Kyma) fleetstate.Report {
	known := r.fleet.GetCurrent(kyma).Report
	if known.IsOvertaken(kyma.Status.Runtime, r.now()) {
		return fleetstate.Report{}
	}
	return known
}

func (r *reportReader) storeReport(kyma *v1beta2.Kyma, newest fleetstate.Report) {
	r.fleet.EditCurrent(kyma, func(known *fleetstate.Runtime) { known.Report = newest })
}

// fetchReport returns the latest report from a Kyma's runtime. It emits Events about new information in the report.
func (k *Kymas) fetchReport(
	ctx context.Context, kyma *v1beta2.Kyma, rules plan.Rules, maxAge time.Duration, reply *digestAnswer,
) (fleetstate.Report, error) {
	from := rules.Reporter(kyma, k.Keys.tokenSecrets(), k.Now())
	from.Content = k.checkReport
	newest, before, err := k.reports.fetchReport(ctx, kyma, from, maxAge, reply)
	if err != nil {
		return newest, err
	}
	isNew := newest.Digest != before.Digest || before.Refused != nil && newest.Refused == nil
	if isNew && newest.Refused != nil && (before.Digest != "" || !showsRefusal(kyma, newest.Refused)) {
		reportsRefused.WithLabelValues(string(newest.Refused.Reason)).Inc()
		k.announceProblem(kyma, v1beta2.ReasonReportRefused,
			fmt.Sprintf("report of runtime %s: %s", plan.RuntimeID(kyma), newest.Refused))
	}
	if isNew && newest.Accepted != nil && newest.Refused == nil {
		k.announceNewer(ctx, kyma, *newest.Accepted)
		k.announceRefused(kyma, before.Accepted, *newest.Accepted)
		k.announceWatched(kyma, before.Accepted, *newest.Accepted)
	}
	return newest, nil
}

// applyReport writes the report's data to the Kyma's status in memory. It does so even if the report has not changed,
// because an earlier write to the API server may have failed.
func (k *Kymas) applyReport(kyma *v1beta2.Kyma, newest fleetstate.Report) {
	if newest.Accepted == nil || newest.Refused != nil {
		return
	}
	key, errKey := trust.EncodePublicKey(newest.Accepted.Key)
	thumbprint, errThumb := trust.Thumbprint(newest.Accepted.Key)
	if errKey == nil && errThumb == nil {
		done, cloned := takeover.CompletedPhase(kyma), plan.CheckClone(kyma)
		ingest.RecordReport(&kyma.Status, *newest.Accepted, key, thumbprint, k.reports.withoutMonotonic(newest.ArrivedAt))
		if note := takeover.Announcement(kyma, done); note != "" {
			k.emitEvent(kyma, corev1.EventTypeNormal, v1beta2.ReasonTakeover, "Takeover", note)
		}
		if now := plan.CheckClone(kyma); now != nil && cloned == nil {
			k.Events.Eventf(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonCloneDetected, "Ingest", "%s",
				eventNote(now.Error()))
		}
	}
}

func (k *Kymas) announceRefused(kyma *v1beta2.Kyma, before *bundle.AcceptedReport, after bundle.AcceptedReport) {
	runtime := plan.RuntimeID(kyma)
	if before == nil && isRecorded(kyma, after) {
		return // the previous process already emitted this Event
	}
	warned := map[string]bool{}
	if before != nil {
		for _, r := range before.Refused {
			warned[r.Digest.String()+string(r.Reason)] = true
		}
	}
	for _, r := range after.Refused {
		if !warned[r.Digest.String()+string(r.Reason)] {
			// The registry may not contain the bundle that this publisher pushed, so check this in the next reconcile.
			k.fleet.PublishRecord(kyma).RequestCheck()
			bundlesRefused.WithLabelValues(string(knownReason(r.Reason))).Inc()
			k.announceProblem(kyma, v1beta2.ReasonBundleRefused,
				fmt.Sprintf("runtime %s refused bundle %s (%s): %s", runtime, r.Digest, r.Reason, r.Detail))
		}
	}
}
