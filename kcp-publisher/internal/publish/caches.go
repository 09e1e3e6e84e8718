package publish

import (
	"crypto/sha256"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// maxChangesBytes limits the size of the cached differences between desired states. maxChanges limits their number.
const maxChangesBytes, maxChanges = 8 << 20, 1_000

// statePair identifies two consecutive desired states of one runtime by their digests.
type statePair struct{ before, after digest.Digest }

func newChanges() *memo.Memo[statePair, *plan.Changes] {
	return memo.New(memo.Limit{Bytes: maxChangesBytes, Entries: maxChanges},
		func(_ statePair, changes *plan.Changes) int {
			return len(memo.Encode(changes)) + memo.EntryBytes
		})
}

// changesBetween returns the modules that differ between two bundles. It caches the result, because many runtimes have
// the same desired states.
func (p *Publisher) changesBetween(before, after *plan.PublishedBundle) *plan.Changes {
	pair := statePair{before.StateBlob.Digest, after.StateBlob.Digest}
	changes, found := p.changes.Get(pair)
	if !found {
		changes = plan.ChangesBetween(before.State, after.State)
		p.changes.Put(pair, changes)
	}
	return after.ChangesSince(*before, changes)
}

// maxOpenedBytes limits the memory for cached desired states. Decoded states need several times as much memory as their
// documents, so a limit on the documents' size is not sufficient.
const maxOpenedBytes = 64 << 20

// decodedState is a decoded desired state in a cache. Many runtimes have the same desired state, so a new process
// decodes each different state only once.
type decodedState struct {
	bundle.DesiredState
	versions map[string]string
}

type documentsKey struct{ state, catalog digest.Digest }

func documentDigests(verified bundle.Verified) documentsKey {
	return documentsKey{verified.Config.Digest, verified.Catalog.Digest}
}

func newOpenedCache() *memo.Memo[documentsKey, decodedState] {
	return memo.New(memo.Limit{Bytes: maxOpenedBytes}, func(_ documentsKey, state decodedState) int {
		return memo.MemoryOf(state) + memo.EntryBytes
	})
}

// maxResolvedBytes limits the total size of the documents in the resolution cache, in bytes.
const maxResolvedBytes = 256 << 20

// newResolutions returns a cache for resolutions (the results of resolving module requests). The cache drops a
// resolution after all its runtimes have a newer one.
func newResolutions(maxBytes int) *memo.Shared[resolutionKey, *resolution] {
	return memo.NewShared(memo.Limit{Bytes: maxBytes}, func(_ resolutionKey, r *resolution) int {
		return len(r.documents.State.Bytes) + len(r.documents.Catalog.Bytes)
	})
}

// resolutionKey is the digest of all inputs that determine a resolution.
type resolutionKey [sha256.Size]byte

// resolutionInput contains all inputs that determine a resolution, except the components' content.
type resolutionInput struct {
	Request  resolve.Request
	Revision string
	// LastState is the digest of the last published desired state. KeptCount is the number of Manifests in this state
	// that acceptedState has not removed. A module that cannot be resolved keeps its Manifest from this state.
	LastState digest.Digest
	KeptCount int
}

func (k resolutionKey) withContents(contents digest.Digest) resolutionKey {
	return sha256.Sum256(append(k[:], contents...))
}

func hashInput(in resolutionInput) resolutionKey {
	if in.Request.LastState != nil {
		in.KeptCount = len(in.Request.LastState.Manifests)
	}
	in.Request.LastState = nil
	return sha256.Sum256(memo.Encode(in))
}
