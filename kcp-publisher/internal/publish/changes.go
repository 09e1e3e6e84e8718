package publish

import (
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// maxChanges bounds the pairs of states whose differences are remembered: a promotion has one for each distinct state.
const maxChanges = 1_000

// changes are how states differ, by the digests of both: most of a fleet goes from one of a few states to one of a few, and a comparison costs as much
// as the rest of a bundle. It is safe for concurrent use.
type changes struct {
	mu    sync.Mutex // guards known
	known map[statePair]*plan.Changes
}

type statePair struct{ before, after digest.Digest }

// between is plan.ChangesBetween for the states of two bundles.
func (c *changes) between(before, after *plan.Published) *plan.Changes {
	pair := statePair{before.StateBlob.Digest, after.StateBlob.Digest}
	c.mu.Lock()
	known, is := c.known[pair]
	c.mu.Unlock()
	if is {
		return known
	}
	fresh := plan.ChangesBetween(before.State, after.State)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxChanges {
		c.known = map[statePair]*plan.Changes{}
	}
	c.known[pair] = fresh
	return fresh
}
