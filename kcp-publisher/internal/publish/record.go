package publish

import (
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
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

const (
	// maxDocumentBytes limits the total size of the new documents that the publisher uploads for one runtime within
	// documentPeriod. Without the limit, a runtime could fill the registry by changing its module request again and again.
	maxDocumentBytes = 4 * bundle.MaxDocumentBytes
	documentPeriod   = 24 * time.Hour
)

// writeLimit enforces maxDocumentBytes for one runtime.
type writeLimit struct {
	limiter *rate.Limiter
	// countedState is the digest of the last desired state whose documents were counted. They are not counted a second
	// time.
	countedState digest.Digest
}

// check returns an error if new documents of this size in bytes would exceed the runtime's limit. state is the digest
// of the desired state in these documents.
func (a *writeLimit) check(state digest.Digest, size int, now time.Time) error {
	if a.countedState == state || a.newLimiter().TokensAt(now) >= float64(size) {
		return nil
	}
	return fmt.Errorf(
		"the desired state changes too often: %d MiB of documents were written for the runtime within %s; find the "+
			"program that changes its Kyma", maxDocumentBytes>>20, documentPeriod)
}

func (a *writeLimit) spend(state digest.Digest, size int, now time.Time) {
	if a.countedState != state {
		a.newLimiter().AllowN(now, size)
		a.countedState = state
	}
}

func (a *writeLimit) newLimiter() *rate.Limiter {
	if a.limiter == nil {
		a.limiter = rate.NewLimiter(rate.Limit(maxDocumentBytes/documentPeriod.Seconds()), maxDocumentBytes)
	}
	return a.limiter
}

// certificateCache caches the agent's last valid certificate and the keys with which it was verified.
type certificateCache struct {
	keys          *Keys
	text, runtime string
	trust.Certificate
}

// check verifies a certificate like Root.CheckCertificate, or returns the cached result.
func (c *certificateCache) check(keys *Keys, text, runtime string, now time.Time) (trust.Certificate, error) {
	if c.keys == keys && c.text == text && c.runtime == runtime && c.Covers(now) {
		return c.Certificate, nil
	}
	fresh, err := keys.Root.CheckCertificate(text, runtime, now)
	if err != nil {
		return trust.Certificate{}, err
	}
	fresh.Key = nil
	*c = certificateCache{keys, text, runtime, fresh}
	return fresh, nil
}
