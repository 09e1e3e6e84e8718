package publish

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// maxChangesBytes limits the size of the cached differences between desired states. maxChanges limits their number.
const maxChangesBytes, maxChanges = 8 << 20, 1_000

// statePair identifies two consecutive desired states of a runtime by their digests.
type statePair struct{ before, after digest.Digest }

func newChanges() *memo.Memo[statePair, *plan.Changes] {
	return memo.New(memo.Limit{Bytes: maxChangesBytes, Entries: maxChanges},
		func(_ statePair, changes *plan.Changes) int {
			return len(mustEncode(changes)) + memo.EntryBytes
		})
}

// changesBetween returns the modules that differ between two bundles. It caches the result, because many runtimes have
// the same desired states.
func (p *Publisher) changesBetween(before, after *plan.PublishedBundle) *plan.Changes {
	pair := statePair{before.StateBlob.Digest, after.StateBlob.Digest}
	changes, found := p.changes.Get(pair)
	if !found {
		changes = plan.ChangesBetween(before.State, after.State)
		p.changes.Put(pair, changes)
	}
	return after.ChangesSince(*before, changes)
}
