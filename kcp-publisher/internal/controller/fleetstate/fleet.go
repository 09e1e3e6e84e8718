// Package fleetstate contains a publisher's in-memory state of each runtime. A new process rebuilds this state from the
// registry and the API server.
package fleetstate

import (
	"crypto"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/ingest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Key is the namespace and the name of a Kyma.
type Key = types.NamespacedName

// Fleet contains the in-memory state for all runtimes that a publisher process or one of its shards is responsible for.
// It is safe for concurrent use.
type Fleet struct {
	dropRecord func(*publish.Record)

	mu           sync.Mutex // guards runtimes, except the data behind Runtime.Published
	runtimes     map[Key]*Runtime
	failingCount int // number of runtimes with a Backoff
}

// New returns an empty Fleet.
func New() *Fleet {
	return &Fleet{dropRecord: (*publish.Record).Drop, runtimes: map[Key]*Runtime{}}
}

// Get returns a copy of a Kyma's in-memory state. It returns a zero Runtime if the Fleet does not contain the Kyma.
func (f *Fleet) Get(key Key) Runtime {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runtimes[key]; r != nil {
		return *r
	}
	return Runtime{}
}

// Edit calls change with a Kyma's in-memory state while it holds the lock. If the Fleet does not contain the Kyma, Edit
// adds it.
func (f *Fleet) Edit(key Key, change func(*Runtime)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edit(key, change)
}

func (f *Fleet) edit(key Key, change func(*Runtime)) {
	r := f.runtimes[key]
	if r == nil {
		r = &Runtime{}
		f.runtimes[key] = r
	}
	failed := r.Backoff != nil
	change(r)
	f.countFailing(failed, r.Backoff != nil)
}

func (f *Fleet) countFailing(before, now bool) {
	switch {
	case now && !before:
		f.failingCount++
	case before && !now:
		f.failingCount--
	}
}

// GetCurrent returns a copy of a Kyma's in-memory state. It first resets the state if a user has recreated the Kyma or
// if the Kyma's runtime ID has changed.
func (f *Fleet) GetCurrent(kyma *v1beta2.Kyma) Runtime {
	return f.EditCurrent(kyma, func(*Runtime) {})
}

// EditCurrent calls change with a Kyma's in-memory state while it holds the lock, and returns a copy of the result. It
// first resets the state if a user has recreated the Kyma or if the Kyma's runtime ID has changed.
func (f *Fleet) EditCurrent(kyma *v1beta2.Kyma, change func(*Runtime)) (after Runtime) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edit(client.ObjectKeyFromObject(kyma), func(r *Runtime) {
		if id := plan.RuntimeID(kyma); r.UID != kyma.UID || r.ID != id {
			f.deleteRecord(r.Published)
			r.reset(kyma.UID, id)
		}
		change(r)
		after = *r
	})
	return after
}

// Delete deletes a Kyma's in-memory state and returns it.
func (f *Fleet) Delete(key Key) (dropped Runtime) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runtimes[key]; r != nil {
		dropped = *r
		f.deleteRecord(r.Published)
		f.countFailing(r.Backoff != nil, false)
		delete(f.runtimes, key)
	}
	return dropped
}

// PublishRecord returns the data that package publish caches about a Kyma's runtime.
func (f *Fleet) PublishRecord(kyma *v1beta2.Kyma) *publish.Record {
	return f.EditCurrent(kyma, func(r *Runtime) {
		if r.Published == nil {
			r.Published = &publish.Record{}
		}
	}).Published
}

// TakePending must be called at the start of a reconcile. It reports whether work is pending. If it is, the reconcile
// must publish a bundle. Later changes become pending work for the next reconcile.
func (f *Fleet) TakePending(key Key) (pending bool) {
	f.Edit(key, func(r *Runtime) { pending = r.Pending.take() })
	return pending
}

// FinishPending must be called at the end of a reconcile. If done is false, the Kyma's work stays pending.
func (f *Fleet) FinishPending(key Key, done bool, now time.Time) {
	f.Edit(key, func(r *Runtime) {
		if done {
			r.Pending.finish(now)
		} else {
			r.Pending.Add(now)
		}
	})
}

// DropWork removes a Kyma's pending work and its backoff. It must be called if the publisher does not publish bundles
// until a user changes the Kyma.
func (f *Fleet) DropWork(key Key) {
	f.Edit(key, func(r *Runtime) { r.Pending, r.Backoff = PendingWork{}, nil })
}

func (f *Fleet) deleteRecord(published *publish.Record) {
	if published != nil {
		f.dropRecord(published)
	}
}

// ForEach calls visit with the in-memory state of every Kyma while it holds the lock. visit can change the state.
func (f *Fleet) ForEach(visit func(Key, *Runtime)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, r := range f.runtimes {
		failed := r.Backoff != nil
		visit(key, r)
		f.countFailing(failed, r.Backoff != nil)
	}
}

// CountFailing returns the number of runtimes with a Backoff.
func (f *Fleet) CountFailing() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failingCount
}

// RemainingDelay returns the remaining delay before the publisher can send the next registry request for a Kyma's
// runtime.
func (f *Fleet) RemainingDelay(key Key, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runtimes[key]; r != nil {
		return r.Backoff.Remaining(now)
	}
	return 0
}

// Runtime is a publisher's in-memory state of one runtime.
type Runtime struct {
	// UID is the Kyma's UID, and ID is the runtime ID. If one of them changes, Fleet resets the other fields.
	UID    types.UID
	ID     string
	Report Report
	// NotifiedCount counts the notifications about new reports from the runtime.
	NotifiedCount int64
	ChangedCount  int64
	// Settled is the last reconcile that left no work pending.
	Settled SettledReconcile
	Pending PendingWork
	Backoff *Backoff
	// events limit how often Events about the runtime's reports are emitted. A limiter is nil before its first Event.
	events [eventLimits]*rate.Limiter
	// pushLimit limits the rate of bundles that are published because of the runtime's reports. It is nil before the
	// first bundle.
	pushLimit *rate.Limiter
	// CountedSeries contains the metrics that count this runtime.
	CountedSeries CountedSeries
	// WrittenKyma is the Kyma as this process last wrote it, if the write added rollout-selected versions to the
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
		CountedSeries: r.CountedSeries, events: r.events, pushLimit: r.pushLimit,
	}
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

// PendingWork records whether the next reconcile of a Kyma must publish a bundle, and when the oldest unpublished
// change happened.
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

// take must be called at the start of a reconcile. It reports whether the reconcile must publish a bundle.
func (p *PendingWork) take() bool {
	was := p.IsNext
	p.IsNext = false
	return was
}

// finish must be called after a reconcile if the bundle is up to date. If another change arrived during the reconcile,
// finish sets Since to now.
func (p *PendingWork) finish(now time.Time) {
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

// Report is the latest report that the publisher has read from a runtime, with the result of its verification.
type Report struct {
	// AskedAt is when the publisher last requested the digest of the runtime's latest report, or zero. PostponedTo is
	// the time to which this process has postponed its first request, or zero.
	AskedAt, PostponedTo time.Time
	// NotifiedCount is the value that Runtime.NotifiedCount had at the time AskedAt.
	NotifiedCount int64
	// Digest is the digest of the latest report, even if the publisher refused it.
	Digest digest.Digest
	// Accepted is the latest accepted report, or nil. Refused is the reason why the publisher refused the latest
	// report, or nil.
	Accepted *bundle.AcceptedReport
	Refused  *refusal.Error
	// VerifiedAt is when the publisher last verified the latest report, or zero.
	VerifiedAt time.Time
	// ArrivedAt is the time at which this process received the report in Accepted. If the report is older than the
	// process, ArrivedAt is the creation time in the report.
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

// IsRepeatedRefusal reports whether r and before are refusals of the same report for the same reason.
func (r Report) IsRepeatedRefusal(before Report) bool {
	return r.Refused != nil && before.Refused != nil && r.Digest == before.Digest &&
		r.Refused.Reason == before.Refused.Reason
}

// ArrivalTime returns the arrival time of a newly accepted report. status is the field status.runtime of the Kyma.
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
