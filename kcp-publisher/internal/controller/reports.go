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
	// slimmer deduplicates equal parts of reports.
	slimmer *Slimmer

	mu sync.Mutex // guards began
	// began is the time when the first report was read, or zero.
	began time.Time
}

func newReports(place store.Store, now func() time.Time, fleet *fleetstate.Fleet, slimmer *Slimmer) *reports {
	return &reports{place: place, now: now, fleet: fleet, slimmer: slimmer}
}

type answer struct {
	at time.Time
	// notified is the number of notifications before the request.
	notified int64
	digest   digest.Digest
	err      error
}

// ask returns the digest of the latest report of a Kyma's runtime. It uses the last response while that is fresh.
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

// isFresh reports whether a known report is used without a request to the registry. Without an operator's request, it
// also is if the runtime received too many bundles recently.
func (r *reports) isFresh(record fleetstate.Runtime, known fleetstate.Report, fresh time.Duration) bool {
	return known.Fresh(record.Notified, fresh, r.now()) ||
		fresh > 0 && !known.Asked.IsZero() && record.HoldsReports(r.now())
}

// fetch returns the latest report of a Kyma's runtime and the previously known report. It does not read the registry if
// the known report is fresh, and does not read the digest again if reply, an earlier response, contains it. The error
// means that the registry did not respond. A report that is refused, or that the registry does not return, only affects
// this runtime and is not an error.
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
			from.LastSequence = max(from.LastSequence, last.Sequence) // the sequence in the status can be older
		}
	} else if status := kyma.Status.Runtime; status != nil && status.Observed != nil {
		// The status already contains this content, so it needs no check.
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
		newest.Digest, newest.Refused = found, refusal.Of(err) // the report is too large
	case err != nil && !errors.Is(err, store.ErrNotFound):
		newest.Unread = store.WithoutDetail(err)
	case err == nil && found != before.Digest:
		newest.Digest = found
		accepted, err := bundle.VerifyReport(fetched, from)
		if newest.Refused = refusal.Of(err); newest.Refused == nil {
			r.slimmer.report(&accepted)
			newest.Accepted, newest.Arrived = &accepted, before.ArrivalOf(kyma.Status.Runtime, accepted, r.now())
		} else {
			// The detail quotes refused content, which can be long.
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

// lastReport returns the time of a runtime's last report, from this publisher or from the Kyma's status, whichever is
// newer.
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

// unrecordedUntil returns the latest time at which another publisher can have received an unrecorded report. It returns
// zero if this process has accepted a report.
func (r *reports) unrecordedUntil(kyma *v1beta2.Kyma) time.Time {
	known := r.remembered(kyma)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known.Accepted != nil {
		return time.Time{}
	}
	return plan.LatestUnrecorded(kyma, r.began)
}

// past returns the time without its monotonic clock reading, or the current time if the time is in the future.
func (r *reports) past(at time.Time) time.Time {
	at = at.Round(0)
	if now := r.now().Round(0); now.Before(at) {
		return now
	}
	return at
}

// pull reads the digest of the latest report, and fetches the report if the digest differs from the known one.
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

// remembered returns the latest known report of a Kyma's runtime. It is zero if the status contains a newer report of
// another publisher.
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

// fetchReport returns the latest report and emits Events about changes in it.
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

// applyReport updates the status even if the report is unchanged, because an earlier write may have failed.
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
		return // the previous process announced the refusal
	}
	warned := map[string]bool{}
	if before != nil {
		for _, r := range before.Refused {
			warned[r.Digest.String()+string(r.Reason)] = true
		}
	}
	for _, r := range after.Refused {
		if !warned[r.Digest.String()+string(r.Reason)] {
			// The registry may not contain the pushed bundle, so check the bundle again.
			k.published(kyma).Recheck()
			bundlesRefused.WithLabelValues(string(knownReason(r.Reason))).Inc()
			k.announce(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonBundleRefused,
				fmt.Sprintf("runtime %s refused bundle %s (%s): %s", runtime, r.Digest, r.Reason, r.Detail))
		}
	}
}
