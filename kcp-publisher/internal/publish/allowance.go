package publish

import (
	"fmt"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// maxDocumentBytes bounds what one runtime may make the publisher write as new documents at once, and documentPeriod is how long it takes
	// until it may do so again: what a runtime asks for is its own word, and nothing deletes documents.
	maxDocumentBytes = 4 * bundle.MaxDocumentBytes
	documentPeriod   = 24 * time.Hour
)

// allowance bounds the bytes of new documents of each runtime. It is safe for concurrent use.
type allowance struct {
	mu        sync.Mutex // guards what follows
	byRuntime map[string]*spending
}

// spending is what one runtime caused to be written, and the state that it was last for: what is tried again is written once.
type spending struct {
	limiter *rate.Limiter
	state   digest.Digest
}

// check returns an error when a runtime has to wait before so many bytes may be written for its state.
func (a *allowance) check(runtime string, state digest.Digest, size int, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.of(runtime); s.state == state || s.limiter.TokensAt(now) >= float64(size) {
		return nil
	}
	return fmt.Errorf("its desired state changes too often: %d MiB of documents were written for it within %s: find out who changes the runtime's Kyma", maxDocumentBytes>>20, documentPeriod)
}

// spend notes that so many bytes were written for a runtime's state.
func (a *allowance) spend(runtime string, state digest.Digest, size int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.of(runtime); s.state != state {
		s.limiter.AllowN(now, size)
		s.state = state
	}
}

// release forgets a runtime that is gone.
func (a *allowance) release(runtime string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byRuntime, runtime)
}

func (a *allowance) of(runtime string) *spending {
	if a.byRuntime == nil {
		a.byRuntime = map[string]*spending{}
	}
	if a.byRuntime[runtime] == nil {
		a.byRuntime[runtime] = &spending{limiter: rate.NewLimiter(rate.Limit(maxDocumentBytes/documentPeriod.Seconds()), maxDocumentBytes)}
	}
	return a.byRuntime[runtime]
}
