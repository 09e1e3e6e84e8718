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
	// lastBundle is the last bundle that this process pushed or found in the registry and continued with, or nil.
	lastBundle *plan.PublishedBundle
	// tag is the digest that the tag of the runtime's bundle had at the last check or push.
	tag digest.Digest
	// checkedAt is the last time at which the registry was found to contain lastBundle. If it is zero, the next
	// reconcile checks this.
	checkedAt   time.Time
	documents   writeLimit
	certificate certificateCache
	resolution  memo.Holder[resolutionKey, *resolution]
}

// NewestPosition returns the position of lastBundle, or zero.
func (r *Record) NewestPosition() plan.RecordedBundle {
	if r.lastBundle == nil {
		return plan.RecordedBundle{}
	}
	return plan.RecordedBundle{Epoch: r.lastBundle.Predicate.Epoch, Sequence: r.lastBundle.Predicate.Sequence,
		Digest: r.lastBundle.Digest}
}

// RequestCheck makes the next reconcile check whether the registry contains the published bundle.
func (r *Record) RequestCheck() { r.checkedAt = time.Time{} }

func (r *Record) setPublished(last *plan.PublishedBundle, tag digest.Digest, checked time.Time) {
	r.lastBundle, r.tag, r.checkedAt = last, tag, checked
}
