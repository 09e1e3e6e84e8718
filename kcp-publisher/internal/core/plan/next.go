package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// ResolvedBundle is the result of resolving a request.
type ResolvedBundle struct {
	Documents bundle.Documents
	// RequestedNames lists the requested modules, including modules that could not be resolved.
	RequestedNames []string
	// Versions contains the values for PublishedBundle.Versions.
	Versions map[string]string
	// AgentImage is the agent image in the runtime's settings, or empty.
	AgentImage string
	// CriticalFeatures lists the features of the bundle that an agent must support. Other agents refuse the bundle.
	CriticalFeatures []bundle.Feature
	// Values contains those values of the runtime that the documents use.
	Values bundle.Values
	// KeepsAllModules is true if the bundle must not remove any modules, for example because the runtime's module
	// request is unknown.
	KeepsAllModules bool
}

// lastBundleValidity is the minimum validity of the bundle that removes all modules of a deleted Kyma. It is long
// because the runtime may be offline for months.
const lastBundleValidity = 365 * 24 * time.Hour

// NextBundle returns the signed content (predicate) of a runtime's next bundle and the reason for publishing it. The
// reason is empty if the last bundle is up to date.
func NextBundle(
	adopted Adoption, resolved ResolvedBundle, r Runtime, root trust.Root, validity time.Duration, now time.Time,
) (bundle.Predicate, Reason) {
	last, asked := adopted.LastBundle, resolved.RequestedNames
	next := bundle.Predicate{
		Audience: r.Audience, Epoch: root.Epoch, RootVersion: root.Version,
		IssuedAt: now.UTC().Truncate(time.Millisecond), ExpiresAt: now.UTC().Truncate(time.Millisecond).Add(validity),
		KymaGeneration: r.KymaGeneration, KymaSpec: r.KymaSpec, KymaUID: r.Kyma.UID, Deleting: r.IsDeleting,
		Source: r.Source, Certificate: r.Certificate, Sealed: r.Sealed,
	}
	next.Kyma, next.FormerKymas = knownKyma(r.Kyma), adopted.listFormerOwners(r)
	if r.IsDeleting {
		// The publisher cannot renew this bundle after the Kyma has been removed.
		next.ExpiresAt = next.IssuedAt.Add(max(validity, lastBundleValidity))
	}
	used, newest := r.highestSequence(root, now), adopted.Sequence
	if last != nil {
		newest = max(newest, epochSequence(root, last.Predicate))
		next.Previous = &bundle.Position{Sequence: last.Predicate.Sequence, Digest: last.Digest}
	} else if r.RecordedBundle != nil && r.RecordedBundle.Digest != "" {
		next.Previous = &bundle.Position{Sequence: r.RecordedBundle.Sequence, Digest: r.RecordedBundle.Digest}
	}
	next.Sequence = bundle.NextSequence(max(used, newest), now)
	before := adopted.lastStatements(r.RecordedBundle)
	if !resolved.KeepsAllModules {
		next.Removals = before.nextRemovals(last, asked, r)
	}
	next.Critical, next.Values = resolved.CriticalFeatures, resolved.Values
	next.Rollback = append(
		before.nextRollbacks(r.grantedVersions(), resolved.Versions, r.Observed),
		bundle.AgentRollbacks(r.AgentRollbackFrom, resolved.AgentImage)...,
	)
	switch {
	case adopted.Deviation != nil || last == nil && next.Previous != nil:
		return next, ReasonRegistryDiffers
	case last == nil:
		return next, ReasonFirst
	}
	if reason := contentReason(last, resolved.Documents, next, asked); reason != "" {
		return next, reason
	}
	if r.hasConflictingBundle(last) {
		return next, ReasonSequenceBehind
	}
	return next, statementReason(last.Predicate, next, used, r.Validity, now)
}

// epochSequence returns a bundle's sequence number. It returns 0 if the bundle does not have the epoch of the root of
// trust.
func epochSequence(root trust.Root, p bundle.Predicate) int64 {
	if p.Epoch != root.Epoch {
		return 0
	}
	return p.Sequence
}

// nextRemovals returns the modules that the next bundle must remove. An agent may skip bundles. Therefore, each bundle
// repeats a removal until the runtime has applied one of these bundles and does not report the module anymore. The
// number of modules is limited, because a report can contain invented modules.
func (s statements) nextRemovals(last *PublishedBundle, asked []string, r Runtime) []string {
	reported := slices.Concat(slices.Collect(maps.Keys(r.grantedVersions())), r.Installed)
	known := slices.Clone(s.removals)
	if last != nil {
		known = append(known, slices.Collect(maps.Keys(resolve.ModuleVersions(last.State)))...)
	}
	confirmed := map[string]bool{}
	if s.digest != "" && r.Observed == s.digest && !r.OmitsModules {
		for _, module := range s.removals {
			confirmed[module] = !slices.Contains(r.Installed, module)
		}
	}
	removed := resolve.RemovedNames(known, asked, confirmed)
	for _, module := range resolve.RemovedNames(reported, asked, confirmed) {
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
