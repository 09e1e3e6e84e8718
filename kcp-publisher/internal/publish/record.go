package publish

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Record is what a Publisher knows about one runtime. The zero Record is that of a runtime to which this process has
// not published yet. A Record belongs to one goroutine at a time, and to one runtime: release it and start with a zero
// Record if the runtime id changes.
type Record struct {
	// last is the last bundle that this process published or adopted, nil for none.
	last *plan.Published
	// tag is the digest that the repository's tag had at the last check, or that was pushed since.
	tag digest.Digest
	// checked is when the registry was last found to hold last; zero makes the next pass check it.
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

// Recheck makes the next pass ask the registry what it holds for the runtime. The last published bundle stays known.
func (r *Record) Recheck() { r.checked = time.Time{} }

// published sets the last bundle and the registry's tag, which the registry held at a time.
func (r *Record) published(last *plan.Published, tag digest.Digest, checked time.Time) {
	r.last, r.tag, r.checked = last, tag, checked
}
