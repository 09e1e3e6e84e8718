package publish

import (
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// maxOpenedBytes bounds the documents of the states that are remembered. They are decoded to a few times of that.
const maxOpenedBytes = 16 << 20

// opened are the desired states of bundles that were read. Most of a fleet has one of a few: a process that starts fetches and decodes each once,
// and holds it once. It is safe for concurrent use; a nil one remembers nothing.
type opened struct {
	mu     sync.Mutex // guards what follows
	states map[documents]openedState
	bytes  int64
}

// openedState is a state with the versions of its modules, which are held once as well.
type openedState struct {
	bundle.DesiredState
	versions map[string]string
}

// documents are those of a bundle, whose catalog was whole when the state was fetched.
type documents struct{ state, catalog digest.Digest }

func documentsOf(verified bundle.Verified) documents {
	return documents{verified.Config.Digest, verified.Catalog.Digest}
}

// find returns the state of a bundle whose documents were fetched before.
func (o *opened) find(verified bundle.Verified) (openedState, bool) {
	if o == nil {
		return openedState{}, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	state, known := o.states[documentsOf(verified)]
	return state, known
}

// remember keeps the state of a bundle whose documents were fetched and are whole.
func (o *opened) remember(verified bundle.Verified, state openedState) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.states == nil || o.bytes > maxOpenedBytes {
		o.states, o.bytes = map[documents]openedState{}, 0
	}
	o.states[documentsOf(verified)] = state
	o.bytes += verified.Config.Size
}
