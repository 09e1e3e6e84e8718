package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// Published is a bundle as it lies in the registry.
type Published struct {
	Predicate bundle.Predicate
	Digest    digest.Digest
	State     bundle.DesiredState
	// StateBlob and CatalogBlob are the two documents.
	StateBlob   ocispec.Descriptor
	CatalogBlob ocispec.Descriptor
	// Versions are those that the runtime has been given with it, by module: of its manifests, and the last known of
	// modules that are asked for and do not resolve. No module goes below without a rollback.
	Versions map[string]string
	// Changes is how it differs from the bundle before it, Predicate.Previous; nil where that is not known or concerns all
	// modules.
	Changes *Changes
}

// Wanted is what a request was resolved to.
type Wanted struct {
	Documents bundle.Documents
	// Asked are the modules that shall be there, resolved or not.
	Asked []string
	// Versions are those of Published.
	Versions map[string]string
	// Critical are the features without which the documents are not to be followed.
	Critical []bundle.Feature
	// KeepsAll says that no module is removed: they are given back, or it is not known yet what the runtime asks for.
	KeepsAll bool
}

// lastBundleValidity is the life of a bundle that says goodbye: a runtime may be carried, switched off, or away for a
// season.
const lastBundleValidity = 365 * 24 * time.Hour

// Next decides what the next bundle of a runtime says and why it needs one: the first reason that holds, or none when
// the last bundle says all that there is to say.
func Next(adopted Adopted, wanted Wanted, r Runtime, root trust.Root, validity time.Duration, now time.Time) (bundle.Predicate, Reason) {
	last, asked := adopted.Last, wanted.Asked
	next := bundle.Predicate{
		Audience: r.Audience, Epoch: root.Epoch, RootVersion: root.Version,
		IssuedAt: now.UTC().Truncate(time.Millisecond), ExpiresAt: now.UTC().Truncate(time.Millisecond).Add(validity),
		KymaGeneration: r.KymaGeneration, KymaSpec: r.KymaSpec, KymaUID: r.Kyma.UID, Deleting: r.Deleting, Source: r.Source, Certificate: r.Certificate, Sealed: r.Sealed,
	}
	next.Kyma, next.FormerKymas = namedKyma(r.Kyma), adopted.former(r)
	if r.Deleting {
		// Nobody renews it: the Kyma may be gone long before its runtime looks again.
		next.ExpiresAt = next.IssuedAt.Add(max(validity, lastBundleValidity))
	}
	used, newest := r.used(root, now), adopted.Sequence
	if last != nil {
		newest = max(newest, sequenceIn(root, last.Predicate))
		next.Previous = &bundle.Position{Sequence: last.Predicate.Sequence, Digest: last.Digest}
	} else if r.Remembered != nil && r.Remembered.Digest != "" {
		next.Previous = &bundle.Position{Sequence: r.Remembered.Sequence, Digest: r.Remembered.Digest}
	}
	next.Sequence = bundle.NextSequence(max(used, newest), now)
	before := adopted.said(r.Remembered)
	if !wanted.KeepsAll {
		next.Removals = before.pending(last, asked, r)
	}
	next.Critical = wanted.Critical
	next.Rollback = before.rollbacks(r.given(), wanted.Versions, r.Observed)
	switch {
	case adopted.Deviation != nil || last == nil && next.Previous != nil:
		return next, ReasonRegistryDiffers
	case last == nil:
		return next, ReasonFirst
	}
	if reason := contentReason(last, wanted.Documents, next, asked); reason != "" {
		return next, reason
	}
	if r.equivocates(last) {
		return next, ReasonSequenceBehind
	}
	return next, statementReason(last.Predicate, next, used, r.Validity, now)
}

// sequenceIn returns a bundle's sequence when it is of the root's epoch, else 0.
func sequenceIn(root trust.Root, p bundle.Predicate) int64 {
	if p.Epoch != root.Epoch {
		return 0
	}
	return p.Sequence
}

// pending returns what may be in the runtime and is not asked for any more. A module stays among them until the runtime
// has applied a bundle that said so and no longer lists it: an agent that was away must still learn of it.
func (s said) pending(last *Published, asked []string, r Runtime) []string {
	known := slices.Collect(maps.Keys(r.given()))
	known = append(append(known, r.Installed...), s.removals...)
	if last != nil {
		known = append(known, slices.Collect(maps.Keys(resolve.Versions(last.State)))...)
	}
	confirmed := map[string]bool{}
	if s.digest != "" && r.Observed == s.digest && !r.LeavesModulesOut {
		for _, module := range s.removals {
			confirmed[module] = !slices.Contains(r.Installed, module)
		}
	}
	return resolve.Removals(known, asked, confirmed)
}
