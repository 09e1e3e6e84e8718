package publish

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Record is a Publisher's knowledge about one runtime. The zero Record belongs to a runtime to which this process has
// not published yet. A Record belongs to one goroutine at a time, and to one runtime: if the runtime id changes,
// release it and start with a zero Record.
type Record struct {
	// last is the last bundle that this process published or adopted, nil for none.
	last *plan.Published
	// tag is the digest of the repository's tag at the last check or push.
	tag digest.Digest
	// checked is the time when the registry was last found to contain last. Zero makes the next pass check it.
	checked     time.Time
	documents   allowance
	certificate checkedCertificate
	resolution  memo.Holder[resolutionKey, *resolution]
}

// Newest returns the position of the newest bundle that this process published or adopted, zero for none.
func (r *Record) Newest() plan.Memory {
	if r.last == nil {
		return plan.Memory{}
	}
	return plan.Memory{Epoch: r.last.Predicate.Epoch, Sequence: r.last.Predicate.Sequence, Digest: r.last.Digest}
}

// Recheck makes the next pass check the registry. The last published bundle stays known.
func (r *Record) Recheck() { r.checked = time.Time{} }

// published sets the last bundle, the registry's tag, and the time of the check.
func (r *Record) published(last *plan.Published, tag digest.Digest, checked time.Time) {
	r.last, r.tag, r.checked = last, tag, checked
}
