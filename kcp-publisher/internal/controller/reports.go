package controller

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// reports fetches and verifies the newest report of each runtime, and remembers it. It is safe for concurrent use.
type reports struct {
	place store.Store
	now   func() time.Time

	mu    sync.Mutex // guards what follows
	known map[types.NamespacedName]report
	// notified counts how often a registry said that there is a report, by Kyma.
	notified map[types.NamespacedName]int64
	// began is when the first report was asked for, zero before.
	began time.Time
}

// report is the newest report of a runtime as it was judged.
type report struct {
	// kyma and runtime are what it was judged for: a new object of the same name does not inherit it, nor does another runtime.
	kyma    types.UID
	runtime string
	// asked is when the registry was asked for it last, zero for never; waits is until when it is not asked the first time.
	asked, waits time.Time
	// notified is what reports.notified was before the registry was asked.
	notified int64
	digest   digest.Digest
	// accepted is the newest that was accepted, refused why the newest one was not.
	accepted *bundle.AcceptedReport
	refused  *refusal.Error
	// seen is when the accepted one arrived: it was first seen here then, or another publisher may have seen it.
	seen time.Time
	// unread is why a registry that answers did not return the report.
	unread error
}

func newReports(place store.Store, now func() time.Time) *reports {
	return &reports{place: place, now: now, known: map[types.NamespacedName]report{}, notified: map[types.NamespacedName]int64{}}
}

// answer is what a registry said when it was asked which report is the newest.
type answer struct {
	at time.Time
	// notified is that of report.
	notified int64
	digest   digest.Digest
	err      error
}

// ask returns which report of a Kyma's runtime is the newest. The registry is not asked where it was so short a time ago that what is known is fresh.
func (r *reports) ask(ctx context.Context, kyma *v1beta2.Kyma, known report, fresh time.Duration) answer {
	name := client.ObjectKeyFromObject(kyma)
	notified := r.notifiedOf(name)
	if r.isFresh(known, notified, fresh) {
		return answer{known.asked, notified, known.digest, nil}
	}
	said := answer{notified: notified}
	repository, err := r.place.Reading(ctx, bundle.ReportRepository(known.runtime))
	if err == nil {
		said.digest, err = store.Head(ctx, repository, bundle.TagLatest)
	}
	said.at, said.err = r.now(), err
	if err == nil && said.digest == known.digest {
		known.asked, known.notified, known.unread = said.at, notified, nil
		r.remember(kyma, known)
	}
	return said
}

// isFresh reports whether the registry need not be asked again for a report.
func (r *reports) isFresh(known report, notified int64, fresh time.Duration) bool {
	return known.notified == notified && known.asked.Add(fresh).After(r.now())
}

// fetch returns the newest report of a Kyma's runtime and the one that was known before; the registry is not asked where it was so short a time
// ago that what is known is fresh, nor which report is the newest where it has answered that already. The error says that the registry did not answer; a
// report that is refused, or that the registry does not return, is this runtime's problem alone and no error.
func (r *reports) fetch(ctx context.Context, kyma *v1beta2.Kyma, from bundle.Reporter, fresh time.Duration, said *answer) (newest, before report, err error) {
	before = r.remembered(kyma)
	notified := r.notifiedOf(client.ObjectKeyFromObject(kyma))
	r.begin()
	if said == nil && r.isFresh(before, notified, fresh) {
		return before, before, nil
	}
	if said != nil {
		notified = said.notified
	}
	if last := before.accepted; last != nil {
		from.Known = last.Content
		if sameKey(last.Key, from.Key) {
			from.LastSequence = max(from.LastSequence, last.Sequence) // not each is noted in the status
		}
	} else if status := kyma.Status.Runtime; status != nil && status.Observed != nil {
		from.Known = digest.Digest(status.Observed.Report) // the API server took what follows from it
	}
	found, fetched, err := r.pull(ctx, from.Runtime, before.digest, said)
	if err != nil && store.Unavailable(err) {
		return before, before, err
	}
	newest = before
	newest.asked, newest.notified, newest.unread = r.now(), notified, nil
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		newest.unread = store.WithoutDetail(err)
	case err == nil && found != before.digest:
		newest.digest = found
		accepted, err := bundle.VerifyReport(fetched, from)
		if newest.refused = refusal.Of(err); newest.refused == nil {
			slimReport(&accepted)
			newest.accepted, newest.seen = &accepted, before.arrived(kyma.Status.Runtime, accepted, r.now())
		} else {
			newest.refused.Detail = bundle.Bounded(newest.refused.Detail, bundle.MaxMessageBytes) // it quotes what was refused
		}
	}
	r.remember(kyma, newest)
	return newest, before, nil
}

// arrived returns when a report arrived that follows the known one.
func (r report) arrived(status *v1beta2.RuntimeStatus, accepted bundle.AcceptedReport, now time.Time) time.Time {
	if last := r.accepted; last != nil && sameKey(last.Key, accepted.Key) && last.Sequence == accepted.Sequence {
		return r.seen // the same in other bytes
	}
	return ingest.Arrived(status, accepted, r.accepted == nil, now)
}

func sameKey(a, b crypto.PublicKey) bool {
	known, is := a.(interface{ Equal(crypto.PublicKey) bool })
	return is && b != nil && known.Equal(b)
}

// content is what tells the newest report from others: those that say the same are not told apart.
func (r report) content() digest.Digest {
	if r.refused != nil || r.accepted == nil || r.accepted.Content == "" {
		return r.digest
	}
	return r.accepted.Content
}

func (r *reports) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		r.began = r.now()
	}
}

// hearing returns when a Kyma's runtime was heard: by this publisher or, as its status says, by another one, whichever is newer. A report whose
// content the status does not tell yet does not count: what it says would be judged as missing after it was heard. Until it is told, the runtime is
// as one that may have been heard, so that nobody calls it silent either.
func (r *reports) hearing(kyma *v1beta2.Kyma) plan.Hearing {
	r.begin()
	known, heard := r.remembered(kyma), plan.Hearing{At: plan.Heard(kyma), Unnoted: r.unnoted(kyma)}
	if known.accepted == nil {
		return heard
	}
	at := plan.HeardIn(kyma, v1beta2.ObservedBundle{Time: metav1.NewTime(known.accepted.Time), Heard: new(metav1.NewTime(r.past(known.seen)))})
	switch {
	case !at.After(heard.At):
	case told(kyma, *known.accepted):
		heard.At = at
	case at.After(heard.Unnoted) && !refusedReport(kyma):
		heard.Unnoted = at
	}
	return heard
}

// told reports whether a Kyma's status follows from a report, or from one that says the same.
func told(kyma *v1beta2.Kyma, accepted bundle.AcceptedReport) bool {
	status := kyma.Status.Runtime
	return status != nil && status.Observed != nil && status.Observed.Report == accepted.Content.String()
}

// refusedReport reports whether the status says that a report is refused, by the API server too: what it says may never be told.
func refusedReport(kyma *v1beta2.Kyma) bool {
	reporting := meta.FindStatusCondition(kyma.Status.Conditions, v1beta2.ConditionReporting)
	return reporting != nil && reporting.Reason == v1beta2.ReasonReportRefused
}

// unnoted returns until when another publisher may have heard a Kyma's runtime and not noted it.
func (r *reports) unnoted(kyma *v1beta2.Kyma) time.Time {
	known := r.remembered(kyma)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known.accepted != nil {
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

// pull asks for the digest of the newest report unless that was answered already, and for the report if it is not the known one. Where none is known,
// it is asked for at once.
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
			return "", bundle.Fetched{}, err
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

// remembered returns what is known of the runtime's reports. It is nothing where the status follows from a newer report: another publisher was at
// work, and what is known here would be written over that.
func (r *reports) remembered(kyma *v1beta2.Kyma) report {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.known[client.ObjectKeyFromObject(kyma)]
	if known.kyma == kyma.UID && known.runtime == plan.RuntimeID(kyma) && !known.overtaken(kyma.Status.Runtime, r.now()) {
		return known
	}
	return report{kyma: kyma.UID, runtime: plan.RuntimeID(kyma)}
}

// overtaken reports whether a status follows from a newer report of the same key. A sequence that is far ahead of this clock counts for nothing, as
// reports that follow it are accepted with lower ones.
func (r report) overtaken(status *v1beta2.RuntimeStatus, now time.Time) bool {
	if r.accepted == nil || status == nil || status.Key == nil || status.ReportSequence <= r.accepted.Sequence || plan.Ahead(status.ReportSequence, now) {
		return false
	}
	thumbprint, err := trust.Thumbprint(r.accepted.Key)
	return err == nil && thumbprint == status.Key.Thumbprint
}

func (r *reports) remember(kyma *v1beta2.Kyma, newest report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[client.ObjectKeyFromObject(kyma)] = newest
}

// forget drops what is known of a Kyma and returns the runtime that it was known of, empty for none.
func (r *reports) forget(kyma types.NamespacedName) (runtime string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	runtime = r.known[kyma].runtime
	delete(r.known, kyma)
	delete(r.notified, kyma)
	return runtime
}

// fetchReport returns the newest report of a Kyma's runtime and makes Events of what is new in it; said is as in reports.fetch.
func (k *Kymas) fetchReport(ctx context.Context, kyma *v1beta2.Kyma, rules plan.Rules, fresh time.Duration, said *answer) (report, error) {
	from := rules.Reporter(kyma, k.Keys.tokens(), k.Now())
	from.Content = k.checkReport
	newest, before, err := k.reports.fetch(ctx, kyma, from, fresh, said)
	if err != nil {
		return newest, err
	}
	isNew := newest.digest != before.digest
	if isNew && newest.refused != nil && (before.digest != "" || !toldRefused(kyma, newest.refused)) {
		reportsRefused.WithLabelValues(string(newest.refused.Reason)).Inc()
		k.Events.Eventf(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonReportRefused, "Ingest", "%s", noted(fmt.Sprintf("report of runtime %s: %s", plan.RuntimeID(kyma), newest.refused)))
	}
	if isNew && newest.accepted != nil && newest.refused == nil {
		k.announceNewer(ctx, kyma, *newest.accepted)
		k.announceRefused(kyma, before.accepted, *newest.accepted)
		k.announceWatched(kyma, before.accepted, *newest.accepted)
	}
	return newest, nil
}

// noteReport notes in a Kyma's status what the newest report says, if it counts. That is noted also when nothing is new: writing it may have been put
// off or have failed.
func (k *Kymas) noteReport(kyma *v1beta2.Kyma, newest report) {
	if newest.accepted == nil || newest.refused != nil {
		return
	}
	key, errKey := trust.EncodePublicKey(newest.accepted.Key)
	thumbprint, errThumb := trust.Thumbprint(newest.accepted.Key)
	if errKey == nil && errThumb == nil {
		done := takeoverDone(kyma)
		ingest.Remember(&kyma.Status, *newest.accepted, key, thumbprint, k.reports.past(newest.seen))
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
			k.Publisher.Forget(runtime)
			bundlesRefused.WithLabelValues(string(knownReason(r.Reason))).Inc()
			k.Events.Eventf(kyma, nil, corev1.EventTypeWarning, v1beta2.ReasonBundleRefused, "Ingest", "%s", noted(fmt.Sprintf("runtime %s refused bundle %s (%s): %s", runtime, r.Digest, r.Reason, r.Detail)))
		}
	}
}

// noted bounds what others wrote to what the API takes as the note of an Event, and makes it printable.
func noted(text string) string {
	return bundle.Bounded(text, bundle.MaxNoteBytes)
}
