package objects

import (
	"sync/atomic"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// progress records which Manifests of a bundle are written. The installer reads it before it deletes an object that
// another module may take over.
type progress struct {
	// writtenBundle is the digest of the last bundle that was written completely. isComplete is false while a newer
	// bundle is being written.
	writtenBundle string
	isComplete    atomic.Bool
	// unwritten contains the Manifests of the bundle that the runtime's Manifests do not match yet. published contains
	// those of the last complete call of Sync.
	unwritten []v1beta2.Manifest
	published atomic.Pointer[[]v1beta2.Manifest]
}

// IsIncomplete reports whether Manifests of the latest bundle are still being written. It is safe for concurrent use.
func (s *progress) IsIncomplete() bool { return !s.isComplete.Load() }

// Unwritten returns the Manifests of the latest bundle that the runtime's Manifests do not match yet, for example
// because an upgrade waits for its maintenance window. It is safe for concurrent use. Callers must not modify the
// result.
func (s *progress) Unwritten() []v1beta2.Manifest {
	if published := s.published.Load(); published != nil {
		return *published
	}
	return nil
}

// begin marks a new bundle as incomplete.
func (s *progress) begin(b *bundle.Bundle) {
	s.unwritten = nil
	if s.writtenBundle != b.Digest.String() {
		s.isComplete.Store(false)
	}
}

// finish marks the bundle as complete: Sync has tried to write every Manifest whose upgrade does not have to wait.
func (s *progress) finish(b *bundle.Bundle) {
	s.writtenBundle = b.Digest.String()
	unwritten := s.unwritten // the next call of begin resets the field while other goroutines read the copy
	s.published.Store(&unwritten)
	s.isComplete.Store(true)
}
