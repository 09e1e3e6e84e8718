package fleetstate

import (
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Runtime is a publisher's in-memory state of one runtime.
type Runtime struct {
	// UID is the Kyma's UID, and ID is the runtime ID. If one of them changes, Fleet resets the other fields.
	UID    types.UID
	ID     string
	Report Report
	// Notified counts the notifications about new reports of the runtime.
	Notified int64
	Changed  int64
	// Settled is the last reconcile that left no work pending.
	Settled Settled
	Pending Pending
	Backoff *Backoff
	// changes and problems limit the rate of Events about the runtime's reports. They are nil before the first Event.
	changes, problems *rate.Limiter
	// pushes limits the rate of bundles that are published because of the runtime's reports. It is nil before the first
	// bundle.
	pushes *rate.Limiter
	// Counted contains the metrics that count this runtime.
	Counted Counted
	// Written is the Kyma with the status that this process wrote, if that status contains new versions that rollouts
	// selected. It is nil if the cache already contains that status.
	Written *v1beta2.Kyma
	// Published is the data of package publish about the runtime. Only the worker that reconciles the Kyma uses it.
	Published *publish.Record
}

// startOver resets the state after the Kyma was created again or its runtime ID changed. It keeps the fields that
// belong to the Kyma's name, such as Pending, Backoff and the rate limits.
func (r *Runtime) startOver(uid types.UID, id string) {
	*r = Runtime{
		UID: uid, ID: id, Notified: r.Notified, Changed: r.Changed, Pending: r.Pending, Backoff: r.Backoff,
		Counted: r.Counted, changes: r.changes, problems: r.problems, pushes: r.pushes,
	}
}

// These constants limit the rate of Events about one runtime's reports. They contain the number of Events that can be
// emitted at once, and the time until one more Event is allowed.
const (
	changesAtOnce, changeInterval   = bundle.MaxWatchedReported, time.Second
	problemsAtOnce, problemInterval = 16, 10 * time.Second
)

// AllowEvent reports whether another Event about the runtime's reports can be emitted now, and counts the Event.
// Without the limit, a runtime could fill the control plane with Events.
func (r *Runtime) AllowEvent(isProblem bool, now time.Time) bool {
	limiter, atOnce, interval := &r.changes, changesAtOnce, changeInterval
	if isProblem {
		limiter, atOnce, interval = &r.problems, problemsAtOnce, problemInterval
	}
	if *limiter == nil {
		*limiter = rate.NewLimiter(rate.Every(interval), atOnce)
	}
	return (*limiter).AllowN(now, 1)
}

// These constants limit the rate of bundles that are published because of one runtime's reports. PushesAtOnce is the
// burst, and PushInterval is the interval after the burst.
const (
	PushesAtOnce = 16
	PushInterval = 5 * time.Second
)

// CountPush counts a bundle that was pushed to the runtime.
func (r *Runtime) CountPush(now time.Time) {
	if r.pushes == nil {
		r.pushes = rate.NewLimiter(rate.Every(PushInterval), PushesAtOnce)
	}
	r.pushes.AllowN(now, 1)
}

// HoldsReports reports whether the publisher must not read new reports of the runtime now, because the runtime recently
// received many bundles. Each new report can cause another bundle, and the publisher must sign and push it.
func (r *Runtime) HoldsReports(now time.Time) bool {
	return r.pushes != nil && r.pushes.TokensAt(now) < 1
}

// Basis contains all inputs of a reconcile except the current time.
type Basis struct {
	// Version is the Kyma's resource version.
	Version string
	View    *plan.View
	Source  *bundle.Source
	// All counts the changes that affect all Kymas, such as changes of the catalog. Own is the value of
	// Runtime.Changed.
	All, Own int64
	// Report is the digest of the latest report's content.
	Report digest.Digest
}

// Settled is a reconcile that left no work pending. Until the time Until, a reconcile with an equal Basis can be
// skipped.
type Settled struct {
	Basis Basis
	Until time.Time
}

// Stands reports whether a reconcile with these inputs can be skipped now.
func (s Settled) Stands(basis Basis, now time.Time) bool {
	return s.Basis == basis && now.Before(s.Until)
}

// Pending stores whether the next reconcile of a Kyma must publish a bundle.
type Pending struct {
	// Next is set after a change, until the next reconcile starts. Since is the time of the first change that is not
	// published yet, or zero.
	Next  bool
	Since time.Time
}

// Add must be called after a change that requires a new bundle.
func (p *Pending) Add(now time.Time) {
	p.Next = true
	if p.Since.IsZero() {
		p.Since = now
	}
}

// Take must be called at the start of a reconcile. It reports whether the reconcile must publish a bundle.
func (p *Pending) Take() bool {
	was := p.Next
	p.Next = false
	return was
}

// Done must be called after a reconcile if the bundle is up to date. If another change arrived during the reconcile, it
// sets Since to now.
func (p *Pending) Done(now time.Time) {
	p.Since = time.Time{}
	if p.Next {
		p.Since = now
	}
}

// Series identifies a time series by the metric's name and its label values.
type Series struct{ Metric, First, Second, Third string }

// Counted contains the time series that count a runtime.
type Counted struct {
	In []Series
	// LastReport is the time of the last report in the Kyma's status.
	LastReport time.Time
}
