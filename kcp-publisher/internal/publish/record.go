package publish

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Record contains a Publisher's cached data about one runtime. A zero Record is valid for a new runtime. A Record is
// not safe for concurrent use. If the runtime ID changes, call Publisher.Release and use a new Record.
type Record struct {
	// last is the last bundle that this process pushed or found in the registry and continued with, or nil.
	last *plan.Published
	// tag is the digest that the tag of the runtime's bundle had at the last check or push.
	tag digest.Digest
	// checked is the last time at which the registry was found to contain the bundle in last. If it is zero, the next
	// reconcile checks this.
	checked     time.Time
	documents   allowance
	certificate checkedCertificate
	resolution  memo.Holder[resolutionKey, *resolution]
}

// Newest returns the position of the bundle in last, or zero.
func (r *Record) Newest() plan.Memory {
	if r.last == nil {
		return plan.Memory{}
	}
	return plan.Memory{Epoch: r.last.Predicate.Epoch, Sequence: r.last.Predicate.Sequence, Digest: r.last.Digest}
}

// Recheck makes the next reconcile check whether the registry contains the published bundle.
func (r *Record) Recheck() { r.checked = time.Time{} }

func (r *Record) published(last *plan.Published, tag digest.Digest, checked time.Time) {
	r.last, r.tag, r.checked = last, tag, checked
}
