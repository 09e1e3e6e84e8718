package publish

import (
	"crypto/sha256"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// maxResolvedBytes limits the total size of cached documents.
const maxResolvedBytes = 256 << 20

// The cache stores a result only while it is the latest result of at least one runtime.
func newResolutions(maxBytes int) *memo.Shared[resolutionKey, *resolution] {
	return memo.NewShared(memo.Limit{Bytes: maxBytes}, func(_ resolutionKey, r *resolution) int {
		return len(r.documents.State.Bytes) + len(r.documents.Catalog.Bytes)
	})
}

// resolutionKey is the digest of the inputs of a resolution.
type resolutionKey [sha256.Size]byte

// inputs contains the inputs of a resolution except the contents of components.
type inputs struct {
	Request  resolve.Request
	Revision string
	// LastState is the digest of the last published desired state. Kept is the number of its Manifests that unresolved
	// modules can keep.
	LastState digest.Digest
	Kept      int
}

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
