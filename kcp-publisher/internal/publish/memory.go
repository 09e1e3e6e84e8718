package publish

import (
	"container/list"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const (
	// maxResolvedBytes bounds the documents of all remembered results: some hundred distinct requests with catalogs of some hundred KiB.
	maxResolvedBytes = 256 << 20
	// maxShared bounds the digests of documents that are known to be shared; who has to ask the registry again only loses time.
	maxShared = 20_000
	// maxDocumentBytes bounds what one runtime may make the publisher write as new documents at once, and documentPeriod is how long it takes
	// until it may do so again: what a runtime asks for is its own word, and nothing deletes documents.
	maxDocumentBytes = 4 * bundle.MaxDocumentBytes
	documentPeriod   = 24 * time.Hour
)

// resolutions remembers the results of equal requests, for as long as a runtime has that request: the next one of a runtime takes the
// place of the one before, so that no runtime holds more than one. What was used least goes when all together are too large. It is safe for
// concurrent use.
type resolutions struct {
	most int

	mu      sync.Mutex // guards what follows
	bytes   int
	byKey   map[resolutionKey]*list.Element
	recent  *list.List // of *remembered, what was used last in front
	current map[string]resolutionKey
}

type resolutionKey [sha256.Size]byte

type remembered struct {
	key      resolutionKey
	result   *resolution
	bytes    int
	runtimes map[string]struct{}
}

func newResolutions(most int) *resolutions {
	return &resolutions{most: most, byKey: map[resolutionKey]*list.Element{}, recent: list.New(), current: map[string]resolutionKey{}}
}

// find returns the result of a request that a runtime has now, nil when none is remembered.
func (r *resolutions) find(runtime, request string) *resolution {
	key := resolutionKey(sha256.Sum256([]byte(request)))
	r.mu.Lock()
	defer r.mu.Unlock()
	element := r.byKey[key]
	if element == nil {
		return nil
	}
	r.hold(runtime, element)
	return element.Value.(*remembered).result
}

// remember keeps the result of a request that a runtime has now.
func (r *resolutions) remember(runtime, request string, result *resolution) {
	key := resolutionKey(sha256.Sum256([]byte(request)))
	r.mu.Lock()
	defer r.mu.Unlock()
	element := r.byKey[key]
	if element == nil {
		size := len(result.documents.State.Bytes) + len(result.documents.Catalog.Bytes)
		element = r.recent.PushFront(&remembered{key: key, result: result, bytes: size, runtimes: map[string]struct{}{}})
		r.byKey[key] = element
		r.bytes += size
	}
	r.hold(runtime, element)
	for r.bytes > r.most && r.recent.Len() > 1 {
		r.drop(r.recent.Back())
	}
}

// hold notes that a runtime has this request now, and no other.
func (r *resolutions) hold(runtime string, element *list.Element) {
	r.recent.MoveToFront(element)
	next := element.Value.(*remembered)
	before, known := r.current[runtime]
	r.current[runtime] = next.key
	next.runtimes[runtime] = struct{}{}
	if !known || before == next.key || r.byKey[before] == nil {
		return
	}
	held := r.byKey[before].Value.(*remembered)
	delete(held.runtimes, runtime)
	if len(held.runtimes) == 0 {
		r.drop(r.byKey[before])
	}
}

// release forgets the request of a runtime that is gone.
func (r *resolutions) release(runtime string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, known := r.current[runtime]
	delete(r.current, runtime)
	if element := r.byKey[key]; known && element != nil {
		held := element.Value.(*remembered)
		if delete(held.runtimes, runtime); len(held.runtimes) == 0 {
			r.drop(element)
		}
	}
}

func (r *resolutions) drop(element *list.Element) {
	gone := r.recent.Remove(element).(*remembered)
	delete(r.byKey, gone.key)
	r.bytes -= gone.bytes
}

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
