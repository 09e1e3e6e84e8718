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
	// UID is that of the Kyma, and ID the id of its runtime. A new Kyma of the same name inherits neither reports nor what
	// was published, nor does another runtime.
	UID types.UID
	ID  string
	// Report is the newest report as it was judged.
	Report Report
	// Notified counts the notifications of a registry that there is a report.
	Notified int64
	// Changed counts the changes that concern this runtime and are not part of its Kyma, such as of its Secrets.
	Changed int64
	// Settled is the last pass that found nothing to do.
	Settled Settled
	Pending Pending
	// Backoff is why the registry is not asked for this runtime, nil if it may be asked.
	Backoff *Backoff
	// Counted is what the runtime adds to the metrics of the fleet.
	Counted Counted
	// Written is a Kyma whose status was written here with versions of rollouts, until the cache has it.
	Written *v1beta2.Kyma
	// Published is what the publisher knows of the runtime's repository. It belongs to the worker that reconciles the
	// Kyma; controller-runtime has one for each name.
	Published *publish.Record
}

// startOver makes the record that of another Kyma or runtime. Notifications, changes, pending work and metrics are by
// name, and stay.
func (r *Runtime) startOver(uid types.UID, id string) {
	*r = Runtime{UID: uid, ID: id, Notified: r.Notified, Changed: r.Changed, Pending: r.Pending, Backoff: r.Backoff, Counted: r.Counted}
}

// Basis is everything that a pass depends on besides time.
type Basis struct {
	// Version is the Kyma's resource version.
	Version string
	View    *plan.View
	Source  *bundle.Source
	// All counts the changes that concern all Kymas: of the catalog, the keys, the signature policy, Watchers and the
	// image pull Secret. Own is Runtime.Changed.
	All, Own int64
	// Report is the digest of the content of the newest report. Its time is not part of it.
	Report digest.Digest
}

// Settled is a pass that found nothing to do, and until when an equal one would not either.
type Settled struct {
	Basis Basis
	Until time.Time
}

// Stands reports whether a pass with the same basis found nothing to do a short while ago.
func (s Settled) Stands(basis Basis, now time.Time) bool {
	return s.Basis == basis && now.Before(s.Until)
}

// Pending is whether the next pass has something to publish, as far as is known.
type Pending struct {
	// Next is set until the next pass begins, Since until something was published.
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

// Take begins a pass and reports whether something is to be published.
func (p *Pending) Take() bool {
	was := p.Next
	p.Next = false
	return was
}

// Done records that the bundle is up to date. What was added during the pass waits from now on.
func (p *Pending) Done(now time.Time) {
	p.Since = time.Time{}
	if p.Next {
		p.Since = now
	}
}

// Series names a time series.
type Series struct{ Metric, First, Second, Third string }

// Counted is what a runtime adds to the metrics of the fleet, once for each series.
type Counted struct {
	In []Series
	// LastReport is the time of the last report by the Kyma's status.
	LastReport time.Time
}
