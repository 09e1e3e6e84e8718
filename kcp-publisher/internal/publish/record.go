package publish

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Record caches a Publisher's data about one runtime. The zero Record is for a runtime to which this process has not
// published yet. A Record must only be used by one goroutine at a time, and for one runtime: if the runtime id changes,
// release the Record and start with a zero Record.
type Record struct {
	// last is the last bundle that this process published or adopted, or nil.
	last *plan.Published
	// tag is the digest to which the repository's tag referred at the last check or push.
	tag digest.Digest
	// checked is when the registry was last found to contain the last bundle. If zero, the next reconcile checks the
	// registry.
	checked     time.Time
	documents   allowance
	certificate checkedCertificate
	resolution  memo.Holder[resolutionKey, *resolution]
}

// Newest returns the epoch, sequence and digest of the latest bundle that this process published or adopted, or zero.
func (r *Record) Newest() plan.Memory {
	if r.last == nil {
		return plan.Memory{}
	}
	return plan.Memory{Epoch: r.last.Predicate.Epoch, Sequence: r.last.Predicate.Sequence, Digest: r.last.Digest}
}

// Recheck makes the next reconcile check the registry. The last published bundle stays recorded.
func (r *Record) Recheck() { r.checked = time.Time{} }

// published sets the last bundle, the registry's tag, and the time of the check.
func (r *Record) published(last *plan.Published, tag digest.Digest, checked time.Time) {
	r.last, r.tag, r.checked = last, tag, checked
}
