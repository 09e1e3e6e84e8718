package publish

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Record contains a Publisher's cached data about one runtime. A zero Record is valid for a new runtime. A Record is
// not safe for concurrent use. If the runtime ID changes, call Publisher.DropRecord and use a new Record.
type Record struct {
	// lastBundle is the bundle on which the runtime's next bundle is based, or nil. This process has pushed it or found it
	// in the registry.
	lastBundle *plan.PublishedBundle
	// tag is the digest that the tag of the runtime's bundle had at the last check or push.
	tag digest.Digest
	// checkedAt is the last time at which this process pushed lastBundle or found it in the registry. If it is zero, the
	// next reconcile reads the registry.
	checkedAt   time.Time
	documents   writeLimit
	certificate certificateCache
	resolution  memo.Holder[resolutionKey, *resolution]
}

// NewestPosition returns the epoch, the sequence number and the digest of lastBundle, or zero.
func (r *Record) NewestPosition() plan.RecordedBundle {
	if r.lastBundle == nil {
		return plan.RecordedBundle{}
	}
	return plan.RecordedBundle{Epoch: r.lastBundle.Predicate.Epoch, Sequence: r.lastBundle.Predicate.Sequence,
		Digest: r.lastBundle.Digest}
}

// RequestCheck makes the next reconcile read the registry and check whether it contains the published bundle.
func (r *Record) RequestCheck() { r.checkedAt = time.Time{} }

func (r *Record) setPublished(last *plan.PublishedBundle, tag digest.Digest, checked time.Time) {
	r.lastBundle, r.tag, r.checkedAt = last, tag, checked
}
