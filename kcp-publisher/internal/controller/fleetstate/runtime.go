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
	// UID is the Kyma's UID, and ID is the id of the Kyma's runtime. If either changes, reports and publish records are
	// dropped.
	UID types.UID
	ID  string
	// Report is the verified latest report.
	Report Report
	// Notified counts the registry's notifications about reports.
	Notified int64
	// Changed counts changes outside the Kyma that affect this runtime, such as changes of its Secrets.
	Changed int64
	// Settled is the last pass that found no pending work.
	Settled Settled
	Pending Pending
	// Backoff is the delay for this runtime's registry requests, or nil.
	Backoff *Backoff
	// changes and problems limit the Events about the runtime's reports. They are nil before the first Event.
	changes, problems *rate.Limiter
	// Counted is the runtime's share of the fleet's metrics.
	Counted Counted
	// Written is the Kyma after this process last wrote new rollout versions to its status. It is nil once the cache
	// contains that status.
	Written *v1beta2.Kyma
	// Published is the publisher's record of the runtime's repository. Only the worker that reconciles the Kyma uses
	// it, and controller-runtime never reconciles an object in two workers at once.
	Published *publish.Record
}

// startOver resets the record when the Kyma was recreated or its runtime changed. It keeps Notified, Changed, Pending,
// Backoff, Counted and the limits of Events, which belong to the Kyma's name.
func (r *Runtime) startOver(uid types.UID, id string) {
	*r = Runtime{
		UID: uid, ID: id, Notified: r.Notified, Changed: r.Changed, Pending: r.Pending, Backoff: r.Backoff,
		Counted: r.Counted, changes: r.changes, problems: r.problems,
	}
}

// Limits of Events about one runtime's reports: the number of Events at once, and the time after which one more is
// allowed. A report with the maximum number of watched changes fits into the limit for changes.
const (
	changesAtOnce, changeInterval   = bundle.MaxWatchedReported, time.Second
	problemsAtOnce, problemInterval = 16, 10 * time.Second
)

// AllowEvent reports whether an Event about the runtime's report can be emitted now: an Event about a problem, or about
// the change of a watched object. The runtime chooses the number and the content of such Events, so without a limit it
// could fill the control plane with them.
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

// Basis contains all inputs of a pass except the time.
type Basis struct {
	// Version is the Kyma's resource version.
	Version string
	View    *plan.View
	Source  *bundle.Source
	// All counts the changes that affect all Kymas, such as changes of the catalog, keys, signature policy, Watchers or
	// image pull Secret. Own is Runtime.Changed.
	All, Own int64
	// Report is the digest of the latest report's content, without its time.
	Report digest.Digest
}

// Settled records a pass that found no pending work. Until the time Until, a pass with an equal Basis can be skipped.
type Settled struct {
	Basis Basis
	Until time.Time
}

// Stands reports whether a pass with the given basis can be skipped, because an earlier pass with an equal basis found
// no pending work.
func (s Settled) Stands(basis Basis, now time.Time) bool {
	return s.Basis == basis && now.Before(s.Until)
}

// Pending records whether the next pass has something to publish.
type Pending struct {
	// Next is true from a change until the next pass begins. Since is the time of the first unpublished change, or
	// zero.
	Next  bool
	Since time.Time
}

// Add records that there is something to publish.
func (p *Pending) Add(now time.Time) {
	p.Next = true
	if p.Since.IsZero() {
		p.Since = now
	}
}

// Take begins a pass and reports whether there is something to publish.
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

// Counted is a runtime's share of the fleet's metrics: the series that count it, and its last report.
type Counted struct {
	In []Series
	// LastReport is the time of the last report according to the Kyma's status.
	LastReport time.Time
}
