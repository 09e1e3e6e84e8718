package publish

import (
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// maxDocumentBytes limits the total size of the new documents that the publisher uploads for one runtime within
	// documentPeriod. Without the limit, a runtime could fill the registry by changing its module request again and again.
	maxDocumentBytes = 4 * bundle.MaxDocumentBytes
	documentPeriod   = 24 * time.Hour
)

// writeLimit enforces maxDocumentBytes for one runtime.
type writeLimit struct {
	limiter *rate.Limiter
	// countedState is the digest of the desired state whose documents were last counted. They are not counted a second
	// time.
	countedState digest.Digest
}

// check returns an error if new documents of the given size in bytes would exceed the runtime's limit. state is the
// digest of the desired state in these documents.
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
