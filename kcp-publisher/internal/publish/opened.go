package publish

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// maxOpenedBytes limits the total encoded size of the cached desired states. The decoded states need several times as
// much memory.
const maxOpenedBytes = 16 << 20

// openedState is a decoded desired state in a cache. Many runtimes have the same desired state, so a new process
// decodes each different state only once.
type openedState struct {
	bundle.DesiredState
	versions map[string]string
	bytes    int
}

type documents struct{ state, catalog digest.Digest }

func documentsOf(verified bundle.Verified) documents {
	return documents{verified.Config.Digest, verified.Catalog.Digest}
}

func newOpened() *memo.Memo[documents, openedState] {
	return memo.New(memo.Limit{Bytes: maxOpenedBytes}, func(_ documents, state openedState) int {
		return state.bytes + memo.EntryBytes
	})
}
