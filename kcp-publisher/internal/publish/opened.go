package publish

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// maxOpenedBytes limits the encoded states that are remembered. Decoded, they take a few times as much.
const maxOpenedBytes = 16 << 20

// openedState is the desired state of a bundle that was read from the registry, with the versions of its modules. Most
// runtimes of a fleet have one of a few states: a process that starts fetches, decodes and holds each once.
type openedState struct {
	bundle.DesiredState
	versions map[string]string
	bytes    int
}

// documents are the digests of a bundle's documents.
type documents struct{ state, catalog digest.Digest }

func documentsOf(verified bundle.Verified) documents {
	return documents{verified.Config.Digest, verified.Catalog.Digest}
}

func newOpened() *memo.Memo[documents, openedState] {
	return memo.New(memo.Limit{Bytes: maxOpenedBytes}, func(_ documents, state openedState) int { return state.bytes + memo.EntryBytes })
}
