package publish

import (
	"crypto/sha256"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// maxResolvedBytes limits the documents of all cached results: some hundred distinct requests with catalogs of some
// hundred KiB.
const maxResolvedBytes = 256 << 20

// newResolutions returns a memo of resolved requests. It keeps a result only while it is the current one of a runtime,
// so each runtime holds at most one.
func newResolutions(maxBytes int) *memo.Shared[resolutionKey, *resolution] {
	return memo.NewShared(memo.Limit{Bytes: maxBytes}, func(_ resolutionKey, r *resolution) int {
		return len(r.documents.State.Bytes) + len(r.documents.Catalog.Bytes)
	})
}

// resolutionKey is the digest of the inputs of a resolution.
type resolutionKey [sha256.Size]byte

// inputs are the inputs of a resolution besides the contents of components.
type inputs struct {
	Request  resolve.Request
	Revision string
	// LastState identifies the last state in the request, whose Kept manifests can be kept.
	LastState digest.Digest
	Kept      int
}

// with returns the key of the same inputs combined with contents.
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
