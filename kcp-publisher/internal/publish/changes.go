package publish

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// maxChangesBytes limits the size of cached differences, and maxChanges the number of state pairs.
const maxChangesBytes, maxChanges = 8 << 20, 1_000

// statePair contains the digests of a desired state and its successor.
type statePair struct{ before, after digest.Digest }

func newChanges() *memo.Memo[statePair, *plan.Changes] {
	return memo.New(memo.Limit{Bytes: maxChangesBytes, Entries: maxChanges},
		func(_ statePair, changes *plan.Changes) int {
			return len(encoded(changes)) + memo.EntryBytes
		})
}

// Most runtimes of a fleet have one of a few states, so changesBetween caches the differences.
func (p *Publisher) changesBetween(before, after *plan.Published) *plan.Changes {
	pair := statePair{before.StateBlob.Digest, after.StateBlob.Digest}
	changes, found := p.changes.Find(pair)
	if !found {
		changes = plan.ChangesBetween(before.State, after.State)
		p.changes.Put(pair, changes)
	}
	return after.Since(*before, changes)
}
