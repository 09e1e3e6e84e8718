package publish

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// maxOpenedBytes limits the total encoded size of the cached desired states. The decoded states need several times as
// much memory.
const maxOpenedBytes = 16 << 20

// decodedState is a decoded desired state in a cache. Many runtimes have the same desired state, so a new process
// decodes each different state only once.
type decodedState struct {
	bundle.DesiredState
	versions map[string]string
	bytes    int
}

type documentsKey struct{ state, catalog digest.Digest }

func documentDigests(verified bundle.Verified) documentsKey {
	return documentsKey{verified.Config.Digest, verified.Catalog.Digest}
}

func newOpenedCache() *memo.Memo[documentsKey, decodedState] {
	return memo.New(memo.Limit{Bytes: maxOpenedBytes}, func(_ documentsKey, state decodedState) int {
		return state.bytes + memo.EntryBytes
	})
}
