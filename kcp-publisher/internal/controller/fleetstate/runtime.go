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

// Runtime is the record of one runtime.
type Runtime struct {
	// UID is the Kyma's UID, and ID is the runtime ID. If either changes, reports and publish records are dropped.
	UID    types.UID
	ID     string
	Report Report
	// Notified counts the registry's notifications about reports.
	Notified int64
	Changed  int64
	// Settled is the last pass without pending work.
	Settled Settled
	Pending Pending
	Backoff *Backoff
	// changes and problems limit the Events about the runtime's reports. They are nil before the first Event.
	changes, problems *rate.Limiter
	// pushes limits the bundles that reports can cause. It is nil before the first bundle.
	pushes *rate.Limiter
	// Counted is the runtime's share of the fleet's metrics.
	Counted Counted
	// Written is the Kyma after this process last wrote new rollout versions to its status. It is nil once the cache
	// contains that status.
	Written *v1beta2.Kyma
	// Published is the publisher's record of the runtime's repository. Only the worker that reconciles the Kyma uses
	// it.
	Published *publish.Record
}

// startOver resets the record when the Kyma was recreated or its runtime changed. It keeps Notified, Changed, Pending,
// Backoff, Counted and the limits of Events and bundles, which belong to the Kyma's name.
func (r *Runtime) startOver(uid types.UID, id string) {
	*r = Runtime{
		UID: uid, ID: id, Notified: r.Notified, Changed: r.Changed, Pending: r.Pending, Backoff: r.Backoff,
		Counted: r.Counted, changes: r.changes, problems: r.problems, pushes: r.pushes,
	}
}

// Limits of Events about one runtime's reports: the number of Events at once, and the time until one more is allowed.
const (
	changesAtOnce, changeInterval   = bundle.MaxWatchedReported, time.Second
	problemsAtOnce, problemInterval = 16, 10 * time.Second
)

// AllowEvent reports whether an Event about the runtime's report can be emitted now. A runtime could otherwise fill the
// control plane with Events.
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

// Rate limit of the bundles that the publisher pushes because of one runtime's reports: the burst, and the interval
// between bundles after the burst.
const (
	PushesAtOnce = 16
	PushInterval = 5 * time.Second
)

// CountPush records that a bundle was pushed to the runtime.
func (r *Runtime) CountPush(now time.Time) {
	if r.pushes == nil {
		r.pushes = rate.NewLimiter(rate.Every(PushInterval), PushesAtOnce)
	}
	r.pushes.AllowN(now, 1)
}

// HoldsReports reports whether newer reports of the runtime must wait, because it received many bundles recently. Each
// report can request another bundle, which costs the publisher a signature and a push.
func (r *Runtime) HoldsReports(now time.Time) bool {
	return r.pushes != nil && r.pushes.TokensAt(now) < 1
}

// Basis contains all inputs of a pass except the time.
type Basis struct {
	// Version is the Kyma's resource version.
	Version string
	View    *plan.View
	Source  *bundle.Source
	// All counts the changes that affect all Kymas, such as changes of the catalog. Own is Runtime.Changed.
	All, Own int64
	// Report is the digest of the latest report's content.
	Report digest.Digest
}

// Settled is a pass without pending work. Until the time Until, a pass with an equal Basis can be skipped.
type Settled struct {
	Basis Basis
	Until time.Time
}

// Stands reports whether a pass with this basis can be skipped now.
func (s Settled) Stands(basis Basis, now time.Time) bool {
	return s.Basis == basis && now.Before(s.Until)
}

// Pending records whether the next pass must publish a bundle.
type Pending struct {
	// Next is true from a change until the next pass. Since is the time of the first unpublished change, or zero.
	Next  bool
	Since time.Time
}

// Add records a change to publish.
func (p *Pending) Add(now time.Time) {
	p.Next = true
	if p.Since.IsZero() {
		p.Since = now
	}
}

// Take starts a pass and reports whether it must publish a bundle.
func (p *Pending) Take() bool {
	was := p.Next
	p.Next = false
	return was
}

// Done records that the bundle is up to date. If a change arrived during the pass, Done sets Since to now.
func (p *Pending) Done(now time.Time) {
	p.Since = time.Time{}
	if p.Next {
		p.Since = now
	}
}

// Series identifies a time series.
type Series struct{ Metric, First, Second, Third string }

// Counted is a runtime's contribution to the fleet's metrics.
type Counted struct {
	In []Series
	// LastReport is the time of the last report in the Kyma's status.
	LastReport time.Time
}
