package publish

import (
	"crypto/sha256"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// maxResolvedBytes limits the total size of the documents in the cache of resolutions, in bytes.
const maxResolvedBytes = 256 << 20

// newResolutions returns a cache for resolutions, the results of resolving module requests. The cache drops a
// resolution when it is not the latest one of any runtime anymore.
func newResolutions(maxBytes int) *memo.Shared[resolutionKey, *resolution] {
	return memo.NewShared(memo.Limit{Bytes: maxBytes}, func(_ resolutionKey, r *resolution) int {
		return len(r.documents.State.Bytes) + len(r.documents.Catalog.Bytes)
	})
}

// resolutionKey is the digest of all inputs that determine a resolution.
type resolutionKey [sha256.Size]byte

// resolutionInput contains all inputs that determine a resolution, except the contents of components.
type resolutionInput struct {
	Request  resolve.Request
	Revision string
	// LastState is the digest of the last published desired state. KeptCount is the number of Manifests that remain in
	// this state after acceptedState has removed others. A module that cannot be resolved keeps its remaining Manifest.
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
	return sha256.Sum256(mustEncode(in))
}
