package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
)

// Published is a bundle as it lies in the registry.
type Published struct {
	Predicate bundle.Predicate
	Digest    digest.Digest
	State     bundle.DesiredState
	// StateDigest and CatalogDigest are those of the two documents.
	StateDigest   digest.Digest
	CatalogDigest digest.Digest
}

// lastBundleValidity is the life of a bundle that says goodbye: a runtime may be carried, switched off, or away for a season.
const lastBundleValidity = 365 * 24 * time.Hour

// Next decides what the next bundle of a runtime says and why it needs one: the first reason that holds, or none when the last bundle
// says all that there is to say.
func Next(last *Published, documents bundle.Documents, asked []string, r Runtime, root trust.Root, validity time.Duration, now time.Time) (bundle.Predicate, Reason) {
	next := bundle.Predicate{
		Audience: r.Audience, Epoch: root.Epoch, RootVersion: root.Version,
		IssuedAt: now.UTC().Truncate(time.Millisecond), ExpiresAt: now.UTC().Truncate(time.Millisecond).Add(validity),
		KymaGeneration: r.KymaGeneration, Deleting: r.Deleting, Source: r.Source, Certificate: r.Certificate, Sealed: r.Sealed,
	}
	if r.Deleting {
		// Nobody renews it: the Kyma may be gone long before its runtime looks again.
		next.ExpiresAt = next.IssuedAt.Add(max(validity, lastBundleValidity))
	}
	// A new epoch starts over, also after sequences so far ahead that nobody could go on from there.
	var remembered, lastSequence int64
	if r.LastEpoch == root.Epoch {
		remembered, lastSequence = r.LastSequence, r.LastSequence
	}
	if last != nil {
		if last.Predicate.Epoch == root.Epoch {
			lastSequence = max(lastSequence, last.Predicate.Sequence)
		}
		next.Previous = &bundle.Position{Sequence: last.Predicate.Sequence, Digest: last.Digest}
	}
	next.Sequence = bundle.NextSequence(lastSequence, now)
	next.Removals = removals(last, asked, r)
	if last == nil {
		return next, ReasonFirst
	}
	if reason := contentReason(last, documents, next, asked); reason != "" {
		return next, reason
	}
	return next, statementReason(last.Predicate, next, remembered, r.Validity, now)
}

// removals returns what may be in the runtime and is not asked for any more. A module stays among them until the runtime has applied a
// bundle that said so and no longer lists it: an agent that was away must still learn of it.
func removals(last *Published, asked []string, r Runtime) []string {
	known := slices.Collect(maps.Keys(r.Versions))
	known = append(known, r.Installed...)
	confirmed := map[string]bool{}
	if last != nil {
		known = append(known, last.Predicate.Removals...)
		known = append(known, slices.Collect(maps.Keys(resolve.Versions(last.State)))...)
		if r.Observed == last.Digest {
			for _, module := range last.Predicate.Removals {
				confirmed[module] = !slices.Contains(r.Installed, module)
			}
		}
	}
	return resolve.Removals(known, asked, confirmed)
}
