package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// Wanted is the result of resolving a request.
type Wanted struct {
	Documents bundle.Documents
	// Asked lists the requested modules, including modules that could not be resolved.
	Asked []string
	// Versions contains the values for Published.Versions.
	Versions map[string]string
	// Agent is the agent image in the runtime's settings, or empty.
	Agent string
	// Critical lists the features of the bundle that an agent must support. Other agents refuse the bundle.
	Critical []bundle.Feature
	// Values contains those values of the runtime that the documents use.
	Values bundle.Values
	// KeepsAll is true if the bundle must not remove any modules, for example because the runtime's module request is
	// unknown.
	KeepsAll bool
}

// lastBundleValidity is the minimum validity of the bundle that removes all modules of a deleted Kyma. It is long
// because the runtime may be offline for months.
const lastBundleValidity = 365 * 24 * time.Hour

// Next returns the signed content (predicate) of a runtime's next bundle and the reason for publishing it. The reason
// is empty if the last bundle is up to date.
func Next(
	adopted Adopted, wanted Wanted, r Runtime, root trust.Root, validity time.Duration, now time.Time,
) (bundle.Predicate, Reason) {
	last, asked := adopted.Last, wanted.Asked
	next := bundle.Predicate{
		Audience: r.Audience, Epoch: root.Epoch, RootVersion: root.Version,
		IssuedAt: now.UTC().Truncate(time.Millisecond), ExpiresAt: now.UTC().Truncate(time.Millisecond).Add(validity),
		KymaGeneration: r.KymaGeneration, KymaSpec: r.KymaSpec, KymaUID: r.Kyma.UID, Deleting: r.Deleting,
		Source: r.Source, Certificate: r.Certificate, Sealed: r.Sealed,
	}
	next.Kyma, next.FormerKymas = namedKyma(r.Kyma), adopted.formerOwners(r)
	if r.Deleting {
		// After the Kyma is gone, the publisher can no longer renew this bundle.
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
	before := adopted.stated(r.Remembered)
	if !wanted.KeepsAll {
		next.Removals = before.pending(last, asked, r)
	}
	next.Critical, next.Values = wanted.Critical, wanted.Values
	next.Rollback = append(
		before.rollbacks(r.granted(), wanted.Versions, r.Observed),
		bundle.AgentRollbacks(r.AgentRollbackFrom, wanted.Agent)...,
	)
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

// sequenceIn returns a bundle's sequence number. It returns 0 if the bundle does not have the epoch of the root of
// trust.
func sequenceIn(root trust.Root, p bundle.Predicate) int64 {
	if p.Epoch != root.Epoch {
		return 0
	}
	return p.Sequence
}

// pending returns the modules that the next bundle must remove. An agent may skip bundles. Therefore, every bundle
// repeats a removal until the runtime has applied one of these bundles and no longer reports the module.
//
// The number of modules is limited, because a report can contain invented modules.
func (s lastStated) pending(last *Published, asked []string, r Runtime) []string {
	reported := slices.Concat(slices.Collect(maps.Keys(r.granted())), r.Installed)
	known := slices.Clone(s.removals)
	if last != nil {
		known = append(known, slices.Collect(maps.Keys(resolve.Versions(last.State)))...)
	}
	confirmed := map[string]bool{}
	if s.digest != "" && r.Observed == s.digest && !r.LeavesModulesOut {
		for _, module := range s.removals {
			confirmed[module] = !slices.Contains(r.Installed, module)
		}
	}
	removed := resolve.Removals(known, asked, confirmed)
	for _, module := range resolve.Removals(reported, asked, confirmed) {
		if len(removed) >= bundle.MaxManifests {
			break
		}
		if !slices.Contains(removed, module) {
			removed = append(removed, module)
		}
	}
	slices.Sort(removed)
	return removed
}
