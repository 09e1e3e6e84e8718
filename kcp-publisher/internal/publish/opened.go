package publish

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// maxOpenedBytes limits the cached states by their encoded size. Decoded states take several times as much memory.
const maxOpenedBytes = 16 << 20

// openedState is the desired state of a bundle from the registry, with the versions of its modules. Most runtimes of a
// fleet have one of a few states. A new process fetches and decodes each distinct state once.
type openedState struct {
	bundle.DesiredState
	versions map[string]string
	bytes    int
}

// documents contains the digests of a bundle's documents.
type documents struct{ state, catalog digest.Digest }

func documentsOf(verified bundle.Verified) documents {
	return documents{verified.Config.Digest, verified.Catalog.Digest}
}

func newOpened() *memo.Memo[documents, openedState] {
	return memo.New(memo.Limit{Bytes: maxOpenedBytes}, func(_ documents, state openedState) int {
		return state.bytes + memo.EntryBytes
	})
}
