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

// reports fetches and verifies the latest report of each runtime. It is safe for concurrent use.
type reports struct {
	place store.Store
	now   func() time.Time
	fleet *fleetstate.Fleet
	// slimmer stores equal parts of several reports only once.
	slimmer *Slimmer

	mu sync.Mutex // guards began
	// began is the time at which this process first read a report, or zero.
	began time.Time
}

func newReports(place store.Store, now func() time.Time, fleet *fleetstate.Fleet, slimmer *Slimmer) *reports {
	return &reports{place: place, now: now, fleet: fleet, slimmer: slimmer}
}

type answer struct {
	at time.Time
	// notified is the number of notifications about reports that had arrived before the request.
	notified int64
	digest   digest.Digest
	err      error
}

// ask returns the digest of the latest report of a Kyma's runtime. If the registry was asked recently enough, it
// returns the known digest.
func (r *reports) ask(ctx context.Context, kyma *v1beta2.Kyma, known fleetstate.Report, fresh time.Duration) answer {
	record := r.fleet.Get(client.ObjectKeyFromObject(kyma))
	notified := record.Notified
	if r.isFresh(record, known, fresh) {
		return answer{known.Asked, notified, known.Digest, nil}
	}
	newest := answer{notified: notified}
	repository, err := r.place.Reading(ctx, bundle.ReportRepository(plan.RuntimeID(kyma)))
	if err == nil {
		newest.digest, err = store.Head(ctx, repository, bundle.TagLatest)
	}
	newest.at, newest.err = r.now(), err
	if err == nil && newest.digest == known.Digest {
		known.Asked, known.Notified, known.Unread = newest.at, notified, nil
		r.remember(kyma, known)
	}
	return newest
}

// isFresh reports whether the known report can be used without a request to the registry. This is also the case if the
// runtime recently received too many bundles, unless an operator requested the reconcile.
func (r *reports) isFresh(record fleetstate.Runtime, known fleetstate.Report, fresh time.Duration) bool {
	return known.Fresh(record.Notified, fresh, r.now()) ||
		fresh > 0 && !known.Asked.IsZero() && record.HoldsReports(r.now())
}

// fetch returns the latest report of a Kyma's runtime and the previously known report. If the known report is fresh
// enough, it does not read the registry. If reply is set, it contains the digest of the latest report, so the digest is
// not read again.
//
// An error means that the registry did not respond. It is not an error if a report is refused, or if the registry
// responds but does not return the report. These problems affect only this runtime and are in the returned report.
func (r *reports) fetch(
	ctx context.Context, kyma *v1beta2.Kyma, from bundle.Reporter, fresh time.Duration, reply *answer,
) (newest, before fleetstate.Report, err error) {
	before = r.remembered(kyma)
	record := r.fleet.Get(client.ObjectKeyFromObject(kyma))
	notified := record.Notified
	r.begin()
	if reply == nil && r.isFresh(record, before, fresh) {
		return before, before, nil
	}
	if reply != nil {
		notified = reply.notified
	}
	if last := before.Accepted; last != nil {
		from.Known = last.Content
		if fleetstate.SameKey(last.Key, from.Key) {
			from.LastSequence = max(from.LastSequence, last.Sequence) // the status may have an older one
		}
	} else if status := kyma.Status.Runtime; status != nil && status.Observed != nil {
		// The status already contains the data of this report, so the data needs no check.
		from.Known = digest.Digest(status.Observed.Report)
	}
	found, fetched, err := r.pull(ctx, from.Runtime, before.Digest, reply)
	if err != nil && store.Unavailable(err) {
		return before, before, err
	}
	newest = before
	newest.Asked, newest.Notified, newest.Unread = r.now(), notified, nil
	switch {
	case refusal.Of(err) != nil:
		// Fetching failed because the report is too large.
		newest.Digest, newest.Refused = found, refusal.Of(err)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		newest.Unread = store.WithoutDetail(err)
	case err == nil && found != before.Digest:
		newest.Digest = found
		accepted, err := bundle.VerifyReport(fetched, from)
		if newest.Refused = refusal.Of(err); newest.Refused == nil {
			r.slimmer.report(&accepted)
			newest.Accepted, newest.Arrived = &accepted, before.ArrivalOf(kyma.Status.Runtime, accepted, r.now())
		} else {
			// Shorten the detail, because it can contain long text from the refused report.
			newest.Refused.Detail = bundle.Bounded(newest.Refused.Detail, bundle.MaxMessageBytes)
		}
	}
	r.remember(kyma, newest)
	return newest, before, nil
}

func (r *reports) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		r.began = r.now()
	}
}

// lastReport returns the time of a runtime's last report. It uses the last report of this publisher or the Kyma's
// status, whichever is newer.
func (r *reports) lastReport(kyma *v1beta2.Kyma) silence.LastReport {
	r.begin()
	known := r.remembered(kyma)
	if known.Accepted == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return plan.LastReport(kyma, nil, r.began)
	}
	return plan.LastReport(
		kyma,
		&plan.Received{
			Made:     known.Accepted.Time,
			Arrived:  r.past(known.Arrived),
			Recorded: isRecorded(kyma, *known.Accepted),
		},
		time.Time{},
	)
}

func isRecorded(kyma *v1beta2.Kyma, accepted bundle.AcceptedReport) bool {
	status := kyma.Status.Runtime
	return status != nil && status.Observed != nil && status.Observed.Report == accepted.Content.String()
}

// unrecordedUntil returns the latest time at which another publisher may have received a report that is not in the
// Kyma's status. It returns zero if this process has already accepted a report of the runtime.
func (r *reports) unrecordedUntil(kyma *v1beta2.Kyma) time.Time {
	known := r.remembered(kyma)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known.Accepted != nil {
		return time.Time{}
	}
	return plan.LatestUnrecorded(kyma, r.began)
}

// past returns a time without its monotonic clock reading. If the time is in the future, it returns the current time.
func (r *reports) past(at time.Time) time.Time {
	at = at.Round(0)
	if now := r.now().Round(0); now.Before(at) {
		return now
	}
	return at
}

// pull reads the digest of the latest report. If it differs from the digest of the known report, pull fetches the
// latest report.
func (r *reports) pull(
	ctx context.Context, runtime string, known digest.Digest, reply *answer,
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

// remembered returns the last report that this publisher read. It returns zero if another publisher has read a newer
// report, according to the Kyma's status.
func (r *reports) remembered(kyma *v1beta2.Kyma) fleetstate.Report {
	known := r.fleet.Of(kyma).Report
	if known.Overtaken(kyma.Status.Runtime, r.now()) {
		return fleetstate.Report{}
	}
	return known
}

func (r *reports) remember(kyma *v1beta2.Kyma, newest fleetstate.Report) {
	r.fleet.EditOf(kyma, func(known *fleetstate.Runtime) { known.Report = newest })
}

// fetchReport returns the latest report of a Kyma's runtime. It emits Events about new information in the report.
func (k *Kymas) fetchReport(
	ctx context.Context, kyma *v1beta2.Kyma, rules plan.Rules, fresh time.Duration, reply *answer,
) (fleetstate.Report, error) {
	from := rules.Reporter(kyma, k.Keys.tokens(), k.Now())
	from.Content = k.checkReport
	newest, before, err := k.reports.fetch(ctx, kyma, from, fresh, reply)
	if err != nil {
		return newest, err
	}
	isNew := newest.Digest != before.Digest
	if isNew && newest.Refused != nil && (before.Digest != "" || !showsRefusal(kyma, newest.Refused)) {
		reportsRefused.WithLabelValues(string(newest.Refused.Reason)).Inc()
		k.announce(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonReportRefused,
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
		done, cloned := takeover.Done(kyma), plan.Cloned(kyma)
		ingest.Remember(&kyma.Status, *newest.Accepted, key, thumbprint, k.reports.past(newest.Arrived))
		if note := takeover.Announcement(kyma, done); note != "" {
			k.event(kyma, corev1.EventTypeNormal, v1beta2.ReasonTakeover, "Takeover", note)
		}
		if now := plan.Cloned(kyma); now != nil && cloned == nil {
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
			// The registry may contain another bundle than the one that was pushed, so check it in the next reconcile.
			k.published(kyma).Recheck()
			bundlesRefused.WithLabelValues(string(knownReason(r.Reason))).Inc()
			k.announce(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonBundleRefused,
				fmt.Sprintf("runtime %s refused bundle %s (%s): %s", runtime, r.Digest, r.Reason, r.Detail))
		}
	}
}
