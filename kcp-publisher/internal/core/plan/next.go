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
	// Asked are the requested modules, including unresolved ones.
	Asked []string
	// Versions are the module versions to record in Published.Versions.
	Versions map[string]string
	// Agent is the agent's image in the settings, or empty.
	Agent string
	// Critical are the features that an agent must support to accept the bundle.
	Critical []bundle.Feature
	// Values are the runtime's values that the documents use.
	Values bundle.Values
	// KeepsAll is true if the bundle must not remove any modules, for example because the runtime's request is unknown.
	KeepsAll bool
}

// lastBundleValidity is the minimum validity of a deleted Kyma's last bundle. The runtime may be offline for months.
const lastBundleValidity = 365 * 24 * time.Hour

// Next returns the statement of a runtime's next bundle and the reason for publishing it. The reason is empty if the
// last bundle is up to date.
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
		// The publisher cannot renew this bundle after the Kyma is gone.
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

// sequenceIn returns a bundle's sequence, or 0 if the bundle has another epoch.
func sequenceIn(root trust.Root, p bundle.Predicate) int64 {
	if p.Epoch != root.Epoch {
		return 0
	}
	return p.Sequence
}

// pending returns the modules that the next bundle must remove. An agent may skip bundles, so every bundle lists a
// module until the runtime has applied one of them and does not report the module anymore.
//
// A report can contain invented modules, so their number is limited.
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
