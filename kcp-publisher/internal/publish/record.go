package publish

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Record caches a Publisher's data about one runtime. Use the zero Record for a new runtime. A Record is not safe for
// concurrent use. If the runtime ID changes, release the Record.
type Record struct {
	// last is the last bundle that this process published or adopted, or nil.
	last *plan.Published
	// tag is the digest of the repository's tag at the last check or push.
	tag digest.Digest
	// checked is when the registry was last found to contain the last bundle, or zero to check at the next reconcile.
	checked     time.Time
	documents   allowance
	certificate checkedCertificate
	resolution  memo.Holder[resolutionKey, *resolution]
}

// Newest returns the latest bundle that this process published or adopted, or zero.
func (r *Record) Newest() plan.Memory {
	if r.last == nil {
		return plan.Memory{}
	}
	return plan.Memory{Epoch: r.last.Predicate.Epoch, Sequence: r.last.Predicate.Sequence, Digest: r.last.Digest}
}

// Recheck makes the next reconcile check the registry.
func (r *Record) Recheck() { r.checked = time.Time{} }

func (r *Record) published(last *plan.Published, tag digest.Digest, checked time.Time) {
	r.last, r.tag, r.checked = last, tag, checked
}
