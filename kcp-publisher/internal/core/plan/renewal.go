package plan

import (
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// RenewBundle returns the signed content (predicate) of the last bundle with a later expiry, and reports whether a
// renewal is due. The bundle's documents stay the same. The last bundle of a deleted Kyma is never renewed.
func RenewBundle(
	adopted Adoption, r Runtime, root trust.Root, validity time.Duration, now time.Time,
) (next bundle.Predicate, needed bool) {
	last := adopted.KeptBundle()
	if last == nil || last.Predicate.Deleting {
		return next, false
	}
	next = last.Predicate
	life := next.ExpiresAt.Sub(next.IssuedAt)
	needed = !now.Before(next.IssuedAt.Add(life / 3))
	next.Epoch, next.RootVersion = root.Epoch, root.Version
	next.IssuedAt = now.UTC().Truncate(time.Millisecond)
	next.ExpiresAt = next.IssuedAt.Add(max(life, validity))
	next.Previous = &bundle.Position{Sequence: last.Predicate.Sequence, Digest: last.Digest}
	next.Sequence = bundle.NextSequence(max(r.highestSequence(root, now), adopted.Sequence,
		epochSequence(root, last.Predicate)), now)
	return next, needed
}
