package fleetstate

import (
	"time"

	"github.com/opencontainers/go-digest"
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
	// Counted is the runtime's share of the fleet's metrics.
	Counted Counted
	// Written is the last Kyma whose status this process wrote with new rollout versions, or nil once the cache
	// contains it.
	Written *v1beta2.Kyma
	// Published is the publisher's record of the runtime's repository. It belongs to the worker that reconciles the
	// Kyma; controller-runtime has one worker for each name.
	Published *publish.Record
}

// startOver resets the record when the Kyma was recreated or its runtime changed. It keeps Notified, Changed, Pending,
// Backoff and Counted, which belong to the Kyma's name.
func (r *Runtime) startOver(uid types.UID, id string) {
	*r = Runtime{
		UID: uid, ID: id, Notified: r.Notified, Changed: r.Changed, Pending: r.Pending, Backoff: r.Backoff,
		Counted: r.Counted,
	}
}

// Basis contains all inputs of a pass except the time.
type Basis struct {
	// Version is the Kyma's resource version.
	Version string
	View    *plan.View
	Source  *bundle.Source
	// All counts the changes for all Kymas: of the catalog, the keys, the signature policy, Watchers and the image pull
	// Secret. Own is Runtime.Changed.
	All, Own int64
	// Report is the digest of the latest report's content, without its time.
	Report digest.Digest
}

// Settled is a pass that found no pending work, and the end of the time in which a pass with an equal basis can be
// skipped.
type Settled struct {
	Basis Basis
	Until time.Time
}

// Stands reports whether a recent pass with the same basis found no pending work.
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

// Done records that the bundle is up to date. The waiting time of work that was added during the pass starts now.
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
