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
)

// reports fetches and verifies the newest report of each runtime, and records it in the fleet. It is safe for
// concurrent use.
type reports struct {
	place store.Store
	now   func() time.Time
	fleet *fleetstate.Fleet
	// slimmer makes reports share what they have in common.
	slimmer *Slimmer

	mu sync.Mutex // guards began
	// began is when the first report was asked for, zero before.
	began time.Time
}

func newReports(place store.Store, now func() time.Time, fleet *fleetstate.Fleet, slimmer *Slimmer) *reports {
	return &reports{place: place, now: now, fleet: fleet, slimmer: slimmer}
}

// answer is what a registry said when it was asked which report is the newest.
type answer struct {
	at time.Time
	// notified is Report.Notified.
	notified int64
	digest   digest.Digest
	err      error
}

// ask returns which report of a Kyma's runtime is the newest. The registry is not asked if it was asked so recently
// that the answer is still fresh.
func (r *reports) ask(ctx context.Context, kyma *v1beta2.Kyma, known fleetstate.Report, fresh time.Duration) answer {
	notified := r.fleet.Get(client.ObjectKeyFromObject(kyma)).Notified
	if known.Fresh(notified, fresh, r.now()) {
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

// fetch returns the newest report of a Kyma's runtime and the one that was known before; the registry is not asked
// where it was so short a time ago that what is known is fresh, nor which report is the newest where it has answered
// that already. The error says that the registry did not answer; a report that is refused, or that the registry does
// not return, is this runtime's problem alone and no error.
func (r *reports) fetch(ctx context.Context, kyma *v1beta2.Kyma, from bundle.Reporter, fresh time.Duration, said *answer) (newest, before fleetstate.Report, err error) {
	before = r.remembered(kyma)
	notified := r.fleet.Get(client.ObjectKeyFromObject(kyma)).Notified
	r.begin()
	if said == nil && before.Fresh(notified, fresh, r.now()) {
		return before, before, nil
	}
	if said != nil {
		notified = said.notified
	}
	if last := before.Accepted; last != nil {
		from.Known = last.Content
		if fleetstate.SameKey(last.Key, from.Key) {
			from.LastSequence = max(from.LastSequence, last.Sequence) // not each is noted in the status
		}
	} else if status := kyma.Status.Runtime; status != nil && status.Observed != nil {
		from.Known = digest.Digest(status.Observed.Report) // the API server took what follows from it
	}
	found, fetched, err := r.pull(ctx, from.Runtime, before.Digest, said)
	if err != nil && store.Unavailable(err) {
		return before, before, err
	}
	newest = before
	newest.Asked, newest.Notified, newest.Unread = r.now(), notified, nil
	switch {
	case refusal.Of(err) != nil:
		newest.Digest, newest.Refused = found, refusal.Of(err) // it is too large to be fetched
	case err != nil && !errors.Is(err, store.ErrNotFound):
		newest.Unread = store.WithoutDetail(err)
	case err == nil && found != before.Digest:
		newest.Digest = found
		accepted, err := bundle.VerifyReport(fetched, from)
		if newest.Refused = refusal.Of(err); newest.Refused == nil {
			r.slimmer.report(&accepted)
			newest.Accepted, newest.Arrived = &accepted, before.ArrivalOf(kyma.Status.Runtime, accepted, r.now())
		} else {
			newest.Refused.Detail = bundle.Bounded(newest.Refused.Detail, bundle.MaxMessageBytes) // it quotes what was refused
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

// lastReport returns the time of the last report of a Kyma's runtime: of this publisher, or of its status, whichever is
// newer.
func (r *reports) lastReport(kyma *v1beta2.Kyma) silence.LastReport {
	r.begin()
	known := r.remembered(kyma)
	if known.Accepted == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return plan.LastReport(kyma, nil, r.began)
	}
	return plan.LastReport(kyma, &plan.Received{Made: known.Accepted.Time, Arrived: r.past(known.Arrived), Recorded: told(kyma, *known.Accepted)}, time.Time{})
}

// told reports whether a Kyma's status follows from a report, or from one that says the same.
func told(kyma *v1beta2.Kyma, accepted bundle.AcceptedReport) bool {
	status := kyma.Status.Runtime
	return status != nil && status.Observed != nil && status.Observed.Report == accepted.Content.String()
}

// unnoted returns until when another publisher may have heard a Kyma's runtime and not noted it.
func (r *reports) unnoted(kyma *v1beta2.Kyma) time.Time {
	known := r.remembered(kyma)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known.Accepted != nil {
		return time.Time{}
	}
	return plan.Unnoted(kyma, r.began)
}

// past returns a time by the clock on the wall, which may have been set since.
func (r *reports) past(at time.Time) time.Time {
	at = at.Round(0)
	if now := r.now().Round(0); now.Before(at) {
		return now
	}
	return at
}

// pull asks for the digest of the newest report unless that was answered already, and for the report if it is not the
// known one. Where none is known, it is asked for at once.
func (r *reports) pull(ctx context.Context, runtime string, known digest.Digest, said *answer) (digest.Digest, bundle.Fetched, error) {
	if said != nil && (said.err != nil || said.digest == known) {
		return said.digest, bundle.Fetched{}, said.err
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
	if said != nil {
		newest = said.digest
	} else if newest, err = store.Head(ctx, repository, bundle.TagLatest); err != nil || newest == known {
		return newest, bundle.Fetched{}, err
	}
	fetched, err := store.Fetch(ctx, repository, newest.String())
	return newest, fetched, err
}

// remembered returns the newest known report of a Kyma's runtime. It is zero if the status follows from a newer report:
// another publisher was active, and the known report would be written over that.
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

// fetchReport returns the newest report of a Kyma's runtime and makes Events of what is new in it; said is as in
// reports.fetch.
func (k *Kymas) fetchReport(ctx context.Context, kyma *v1beta2.Kyma, rules plan.Rules, fresh time.Duration, said *answer) (fleetstate.Report, error) {
	from := rules.Reporter(kyma, k.Keys.tokens(), k.Now())
	from.Content = k.checkReport
	newest, before, err := k.reports.fetch(ctx, kyma, from, fresh, said)
	if err != nil {
		return newest, err
	}
	isNew := newest.Digest != before.Digest
	if isNew && newest.Refused != nil && (before.Digest != "" || !toldRefused(kyma, newest.Refused)) {
		reportsRefused.WithLabelValues(string(newest.Refused.Reason)).Inc()
		k.Events.Eventf(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonReportRefused, "Ingest", "%s", noted(fmt.Sprintf("report of runtime %s: %s", plan.RuntimeID(kyma), newest.Refused)))
	}
	if isNew && newest.Accepted != nil && newest.Refused == nil {
		k.announceNewer(ctx, kyma, *newest.Accepted)
		k.announceRefused(kyma, before.Accepted, *newest.Accepted)
		k.announceWatched(kyma, before.Accepted, *newest.Accepted)
	}
	return newest, nil
}

// noteReport notes in a Kyma's status what the newest report says, if it counts. That is noted also when nothing is
// new: writing it may have been put off or have failed.
func (k *Kymas) noteReport(kyma *v1beta2.Kyma, newest fleetstate.Report) {
	if newest.Accepted == nil || newest.Refused != nil {
		return
	}
	key, errKey := trust.EncodePublicKey(newest.Accepted.Key)
	thumbprint, errThumb := trust.Thumbprint(newest.Accepted.Key)
	if errKey == nil && errThumb == nil {
		done := takeoverDone(kyma)
		ingest.Remember(&kyma.Status, *newest.Accepted, key, thumbprint, k.reports.past(newest.Arrived))
		k.announceTakeover(kyma, done)
	}
}

// announceRefused makes an Event of every bundle that the runtime refused and had not reported before.
func (k *Kymas) announceRefused(kyma *v1beta2.Kyma, before *bundle.AcceptedReport, after bundle.AcceptedReport) {
	runtime := plan.RuntimeID(kyma)
	if before == nil && told(kyma, after) {
		return // this process has just begun, and the one before told it
	}
	told := map[string]bool{}
	if before != nil {
		for _, r := range before.Refused {
			told[r.Digest.String()+string(r.Reason)] = true
		}
	}
	for _, r := range after.Refused {
		if !told[r.Digest.String()+string(r.Reason)] {
			// What is in the registry is not what was pushed: read it again, and replace it.
			k.published(kyma).Recheck()
			bundlesRefused.WithLabelValues(string(knownReason(r.Reason))).Inc()
			k.Events.Eventf(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonBundleRefused, "Ingest", "%s", noted(fmt.Sprintf("runtime %s refused bundle %s (%s): %s", runtime, r.Digest, r.Reason, r.Detail)))
		}
	}
}

// noted bounds what others wrote to what the API takes as the note of an Event, and makes it printable.
func noted(text string) string {
	return bundle.Bounded(text, bundle.MaxNoteBytes)
}
