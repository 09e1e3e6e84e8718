package publish

import (
	"crypto/sha256"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// maxResolvedBytes limits the total size of cached documents. It is enough for several hundred distinct requests with
// catalogs of several hundred KiB.
const maxResolvedBytes = 256 << 20

// newResolutions returns a cache of resolved requests. It stores a result only while the result is the latest one of at
// least one runtime.
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
	// LastState is the digest of the last published desired state. Kept is the number of its Manifests that can be used
	// again for unresolved modules.
	LastState digest.Digest
	Kept      int
}

// with returns the key for the inputs together with the contents of components.
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
