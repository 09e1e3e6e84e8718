package fleetstate

import (
	"crypto"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/opencontainers/go-digest"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Runtime is a publisher's in-memory state of one runtime.
type Runtime struct {
	// UID is the Kyma's UID, and ID is the runtime ID. If one of them changes, Fleet resets the other fields.
	UID    types.UID
	ID     string
	Report Report
	// NotifiedCount counts the notifications about new reports of the runtime.
	NotifiedCount int64
	ChangedCount  int64
	// Settled is the last reconcile that left no work pending.
	Settled SettledReconcile
	Pending PendingWork
	Backoff *Backoff
	// changeEvents and problemEvents limit the rate of Events about the runtime's reports. They are nil before the
	// first Event.
	changeEvents, problemEvents *rate.Limiter
	// pushLimit limits the rate of bundles that are published because of the runtime's reports. It is nil before the
	// first bundle.
	pushLimit *rate.Limiter
	// CountedSeries contains the metrics that count this runtime.
	CountedSeries CountedSeries
	// WrittenKyma is the Kyma as this process last wrote it, if the write added versions that rollouts selected to the
	// status. It is nil as soon as the cache contains this status.
	WrittenKyma *v1beta2.Kyma
	// Published contains the data that package publish caches about the runtime. Only the worker that reconciles the
	// Kyma uses it.
	Published *publish.Record
}

// reset resets the state after a user has recreated the Kyma or after its runtime ID has changed. It keeps counters,
// pending work, the backoff and the rate limits, because they also apply to the new Kyma.
func (r *Runtime) reset(uid types.UID, id string) {
	*r = Runtime{
		UID: uid, ID: id, NotifiedCount: r.NotifiedCount, ChangedCount: r.ChangedCount, Pending: r.Pending,
		Backoff:       r.Backoff,
		CountedSeries: r.CountedSeries, changeEvents: r.changeEvents, problemEvents: r.problemEvents, pushLimit: r.pushLimit,
	}
}

// These constants limit the rate of Events about one runtime's reports. A burst is the number of Events that can be
// emitted at once. An interval is the time until one more Event is allowed.
const (
	changeBurst, changeInterval   = bundle.MaxWatchedReported, time.Second
	problemBurst, problemInterval = 16, 10 * time.Second
)

// AllowEvent reports whether another Event about the runtime's reports can be emitted now, and counts the Event.
// Without the limit, a runtime could fill the control plane with Events.
func (r *Runtime) AllowEvent(isProblem bool, now time.Time) bool {
	limiter, atOnce, interval := &r.changeEvents, changeBurst, changeInterval
	if isProblem {
		limiter, atOnce, interval = &r.problemEvents, problemBurst, problemInterval
	}
	if *limiter == nil {
		*limiter = rate.NewLimiter(rate.Every(interval), atOnce)
	}
	return (*limiter).AllowN(now, 1)
}

// These constants limit the rate of bundles that are published because of one runtime's reports. PushBurst is the
// burst, and PushInterval is the interval after the burst.
const (
	PushBurst    = 16
	PushInterval = 5 * time.Second
)

// CountPush counts a bundle that was pushed to the runtime.
func (r *Runtime) CountPush(now time.Time) {
	if r.pushLimit == nil {
		r.pushLimit = rate.NewLimiter(rate.Every(PushInterval), PushBurst)
	}
	r.pushLimit.AllowN(now, 1)
}

// MustHoldReports reports whether the publisher must not read new reports of the runtime now, because the runtime
// recently received many bundles. Each new report can cause another bundle, and the publisher must sign and push it.
func (r *Runtime) MustHoldReports(now time.Time) bool {
	return r.pushLimit != nil && r.pushLimit.TokensAt(now) < 1
}

// ReconcileInput contains all inputs of a reconcile except the current time.
type ReconcileInput struct {
	// Version is the Kyma's resource version.
	Version string
	View    *plan.View
	Source  *bundle.Source
	// AllChanges counts the changes that affect all Kymas, such as changes to the catalog. OwnChanges is the value of
	// Runtime.ChangedCount.
	AllChanges, OwnChanges int64
	// Report is the digest of the latest report's content.
	Report digest.Digest
}

// SettledReconcile is a reconcile that left no work pending. A later reconcile with an equal Input can be skipped if it
// starts before the time Until.
type SettledReconcile struct {
	Input ReconcileInput
	Until time.Time
}

// IsValid reports whether a reconcile with these inputs can be skipped now.
func (s SettledReconcile) IsValid(input ReconcileInput, now time.Time) bool {
	return s.Input == input && now.Before(s.Until)
}

// PendingWork records whether the next reconcile of a Kyma must publish a bundle, and the start of that wait.
type PendingWork struct {
	// IsNext is true between a change and the start of the next reconcile. Since is the time of the first change that
	// is not in a published bundle yet, or zero.
	IsNext bool
	Since  time.Time
}

// Add must be called after a change that requires a new bundle.
func (p *PendingWork) Add(now time.Time) {
	p.IsNext = true
	if p.Since.IsZero() {
		p.Since = now
	}
}

// Take must be called at the start of a reconcile. It reports whether the reconcile must publish a bundle.
func (p *PendingWork) Take() bool {
	was := p.IsNext
	p.IsNext = false
	return was
}

// Finish must be called after a reconcile if the bundle is up to date. If another change arrived during the reconcile,
// it sets Since to now.
func (p *PendingWork) Finish(now time.Time) {
	p.Since = time.Time{}
	if p.IsNext {
		p.Since = now
	}
}

// Series identifies a time series by the metric's name and its label values.
type Series struct{ Metric, First, Second, Third string }

// CountedSeries contains the time series that count a runtime.
type CountedSeries struct {
	Series []Series
	// LastReport is the time of the last report in the Kyma's status.
	LastReport time.Time
}

// The delay of a Backoff starts at MinDelay and grows up to MaxDelay.
const (
	// The delay of a Backoff starts at MinDelay and grows up to MaxDelay.
	MinDelay = time.Second
	MaxDelay = time.Minute
)

// Backoff is a growing delay between requests to a registry after failed requests.
type Backoff struct {
	// Since is the start of the backoff, and Until is the end of the current delay.
	Since, Until time.Time
	delays       *backoff.ExponentialBackOff
}

// NewBackoff returns a Backoff that starts now.
func NewBackoff(now time.Time) *Backoff {
	b := &Backoff{Since: now, delays: backoff.NewExponentialBackOff()}
	b.delays.InitialInterval, b.delays.MaxInterval = MinDelay, MaxDelay
	b.delays.Reset()
	return b
}

// RecordFailure must be called after a failed request. It returns the remaining time of the current delay. If the
// current delay has ended, it starts the next one and returns its length.
func (b *Backoff) RecordFailure(now time.Time) time.Duration {
	if !now.Before(b.Until) {
		b.Until = now.Add(b.delays.NextBackOff())
	}
	return jitter.JitteredIntervalDuration(b.Until.Sub(now))
}

// Remaining returns the remaining time of the current delay. It returns 0 for a nil Backoff.
func (b *Backoff) Remaining(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	return b.Until.Sub(now)
}

// Report is the latest report of a runtime that the publisher has read, and the result of its verification.
type Report struct {
	// AskedAt is the time of the publisher's last request for the digest of the runtime's latest report, or zero.
	// PostponedTo is the time to which this process has postponed its first request, or zero.
	AskedAt, PostponedTo time.Time
	// NotifiedCount is the value that Runtime.NotifiedCount had at the time AskedAt.
	NotifiedCount int64
	// Digest is the digest of the latest report, even if the publisher refused it.
	Digest digest.Digest
	// Accepted is the latest accepted report, or nil. Refused is the reason why the publisher refused the latest
	// report, or nil.
	Accepted *bundle.AcceptedReport
	Refused  *refusal.Error
	// ArrivedAt is the time at which this process received the report in Accepted. If the report is older than the
	// process, it is the creation time in the report.
	ArrivedAt time.Time
	// ReadError is the error if the report could not be read although the registry is available.
	ReadError error
}

// IsFresh reports whether r can be used without a request to the registry. This is the case if the last request was
// less than maxAge ago and no notification about a new report has arrived since then. notified is the current value of
// Runtime.NotifiedCount.
func (r Report) IsFresh(notified int64, maxAge time.Duration, now time.Time) bool {
	return r.NotifiedCount == notified && r.AskedAt.Add(maxAge).After(now)
}

// ContentDigest returns the digest of the latest report's content, without the report's creation time. Reports that
// differ only in this time have the same ContentDigest.
func (r Report) ContentDigest() digest.Digest {
	if r.Refused != nil || r.Accepted == nil || r.Accepted.Content == "" {
		return r.Digest
	}
	return r.Accepted.Content
}

// ArrivalTime returns the arrival time of a newly accepted report. status is the status in the runtime's Kyma.
func (r Report) ArrivalTime(status *v1beta2.RuntimeStatus, accepted bundle.AcceptedReport, now time.Time) time.Time {
	if last := r.Accepted; last != nil && IsSameKey(last.Key, accepted.Key) && last.Sequence == accepted.Sequence {
		return r.ArrivedAt // the same report, encoded in another way
	}
	return ingest.ArrivalTime(status, accepted, r.Accepted == nil, now)
}

// IsOvertaken reports whether another publisher process has read a newer report than r. In this case, the Kyma's status
// contains a higher sequence number and the same agent key.
func (r Report) IsOvertaken(status *v1beta2.RuntimeStatus, now time.Time) bool {
	if r.Accepted == nil || status == nil || status.Key == nil || status.ReportSequence <= r.Accepted.Sequence ||
		plan.IsAhead(status.ReportSequence, now) {
		return false
	}
	thumbprint, err := trust.Thumbprint(r.Accepted.Key)
	return err == nil && thumbprint == status.Key.Thumbprint
}

// IsSameKey reports whether two public keys are equal.
func IsSameKey(a, b crypto.PublicKey) bool {
	known, is := a.(interface{ Equal(crypto.PublicKey) bool })
	return is && b != nil && known.Equal(b)
}
