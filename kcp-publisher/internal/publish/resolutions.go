package publish

import (
	"container/list"
	"crypto/sha256"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// maxResolvedBytes bounds the documents of all remembered results: some hundred distinct requests with catalogs of some hundred KiB.
const maxResolvedBytes = 256 << 20

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

// resolutionKey tells equal inputs of a resolution.
type resolutionKey [sha256.Size]byte

// inputs are what a resolution depends on besides the contents of components.
type inputs struct {
	Request  resolve.Request
	Revision string
	// LastState stands for the last state in the request, of which Kept manifests may be kept.
	LastState digest.Digest
	Kept      int
}

// with returns the key of the same inputs with contents.
func (k resolutionKey) with(contents digest.Digest) resolutionKey {
	return sha256.Sum256(append(k[:], contents...))
}

func keyOf(in inputs) resolutionKey {
	if in.Request.Last != nil {
		in.Kept = len(in.Request.Last.Manifests)
	}
	in.Request.Last = nil
	return sha256.Sum256(encoded(in))
}

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
func (r *resolutions) find(runtime string, key resolutionKey) *resolution {
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
func (r *resolutions) remember(runtime string, key resolutionKey, result *resolution) {
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
