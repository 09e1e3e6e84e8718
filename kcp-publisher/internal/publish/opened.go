package publish

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// maxOpenedBytes limits the cached states by their encoded size. Decoded states need several times as much memory.
const maxOpenedBytes = 16 << 20

// Most runtimes of a fleet have one of a few states, so a new process decodes each distinct state once.
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
