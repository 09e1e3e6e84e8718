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
	// Versions maps each module to the version that PublishedBundle.Versions must contain.
	Versions map[string]string
	// AgentImage is the agent image in the runtime's settings, or empty.
	AgentImage string
	// CriticalFeatures lists the features of the bundle that an agent must support. An agent without this support
	// refuses the bundle.
	CriticalFeatures []bundle.Feature
	// Values contains the runtime values that the documents use.
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

// epochSequence returns a bundle's sequence number. It returns 0 if the bundle belongs to a different epoch than the
// root of trust.
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

// RenewBundle returns the signed content (predicate) of the last bundle with a later expiry, and reports whether a
// renewal is due. The bundle's documents stay the same. RenewBundle never renews a deleted Kyma's last bundle.
func RenewBundle(
	adopted Adoption, r Runtime, root trust.Root, validity time.Duration, now time.Time,
) (next bundle.Predicate, needed bool) {
	last := adopted.KeptBundle()
	if last == nil || last.Predicate.Deleting {
		return next, false
	}
	next = last.Predicate
	life := next.ExpiresAt.Sub(next.IssuedAt)
	needed = !now.Before(renewalTime(next))
	next.Epoch, next.RootVersion = root.Epoch, root.Version
	next.IssuedAt = now.UTC().Truncate(time.Millisecond)
	next.ExpiresAt = next.IssuedAt.Add(max(life, validity))
	next.Previous = &bundle.Position{Sequence: last.Predicate.Sequence, Digest: last.Digest}
	next.Sequence = bundle.NextSequence(max(r.highestSequence(root, now), adopted.Sequence,
		epochSequence(root, last.Predicate)), now)
	return next, needed
}

// Reason is the reason for publishing a new bundle, or empty.
type Reason string

// These are the reasons for a new bundle. They are values of a metric label, so do not rename them.
const (
	// ReasonFirst means that this is the runtime's first bundle.
	ReasonFirst Reason = "First"
	// ReasonRegistryDiffers means that the registry does not contain the published bundle.
	ReasonRegistryDiffers Reason = "RegistryDiffers"
	// ReasonDeleting means that the Kyma was deleted. The new bundle removes all modules.
	ReasonDeleting Reason = "Deleting"
	// ReasonRecreated means that the last bundle announced the deletion of the Kyma, but a Kyma for the runtime exists
	// again.
	ReasonRecreated Reason = "Recreated"
	// ReasonContentChanged means that modules, agent settings, Watchers or maintenance windows changed.
	ReasonContentChanged Reason = "ContentChanged"
	// ReasonCatalogChanged means that the catalog that is published to the runtime changed.
	ReasonCatalogChanged Reason = "CatalogChanged"
	// ReasonValuesChanged means that the modules use a runtime value that changed.
	ReasonValuesChanged Reason = "ValuesChanged"
	// ReasonRemovalAdded means that the new bundle removes a module that the last bundle does not remove.
	ReasonRemovalAdded Reason = "RemovalAdded"
	// ReasonRemovalWithdrawn means that the last bundle removes a module that is now requested again.
	ReasonRemovalWithdrawn Reason = "RemovalWithdrawn"
	// ReasonRollbackAdded means that the new bundle contains a rollback that the last bundle does not contain.
	ReasonRollbackAdded Reason = "RollbackAdded"
	// ReasonSecretsChanged means that the encrypted Secrets in the bundle changed.
	ReasonSecretsChanged Reason = "SecretsChanged"
	// ReasonAudienceChanged means that the last bundle was issued for a different cluster or key than the runtime's
	// current enrollment.
	ReasonAudienceChanged Reason = "AudienceChanged"
	// ReasonOwnerChanged means that the last bundle was issued for a different Kyma than the runtime's current owner.
	ReasonOwnerChanged Reason = "OwnerChanged"
	// ReasonKymaChanged means that the generation or the spec of the Kyma in the runtime changed.
	ReasonKymaChanged Reason = "KymaChanged"
	// ReasonCertificateIssued means that the agent gets a new certificate.
	ReasonCertificateIssued Reason = "CertificateIssued"
	// ReasonEpochChanged means that the root of trust has a new epoch.
	ReasonEpochChanged Reason = "EpochChanged"
	// ReasonRootChanged means that the root of trust has a newer version.
	ReasonRootChanged Reason = "RootChanged"
	// ReasonSequenceBehind means that the Kyma's status or the runtime's report contains another bundle whose sequence
	// number is at least as high as the last bundle's.
	ReasonSequenceBehind Reason = "SequenceBehind"
	// ReasonIssuedAhead means that the publisher's clock was ahead, so the last bundle's issue time is in the future
	// and agents refuse the bundle.
	ReasonIssuedAhead Reason = "IssuedAhead"
	// ReasonValidityTooShort means that the last bundle's validity period is shorter than required, for example for a
	// bundle that an operator carries to the runtime by hand.
	ReasonValidityTooShort Reason = "ValidityTooShort"
	// ReasonRenewalDue means that a third of the last bundle's validity has passed.
	ReasonRenewalDue Reason = "RenewalDue"
)

// reasonCandidate is a possible reason for a new bundle.
type reasonCandidate struct {
	reason Reason
	// applies is true if the reason applies to this runtime now.
	applies bool
}

func contentReason(last *PublishedBundle, documents bundle.Documents, next bundle.Predicate, asked []string) Reason {
	p := last.Predicate
	return firstReason(
		reasonCandidate{ReasonDeleting, next.Deleting && !p.Deleting},
		reasonCandidate{ReasonRecreated, p.Deleting && !next.Deleting},
		reasonCandidate{ReasonContentChanged, documents.State.Descriptor.Digest != last.StateBlob.Digest},
		reasonCandidate{ReasonCatalogChanged, documents.Catalog.Descriptor.Digest != last.CatalogBlob.Digest},
		reasonCandidate{ReasonValuesChanged, !maps.Equal(p.Values, next.Values)},
		reasonCandidate{
			ReasonRemovalAdded, slices.ContainsFunc(next.Removals, func(m string) bool {
				return !slices.Contains(p.Removals, m)
			}),
		},
		reasonCandidate{
			ReasonRemovalWithdrawn, slices.ContainsFunc(p.Removals, func(m string) bool {
				return slices.Contains(asked, m)
			}),
		},
		reasonCandidate{
			ReasonRollbackAdded, slices.ContainsFunc(next.Rollback, func(r bundle.Rollback) bool {
				return !slices.Contains(p.Rollback, r)
			}),
		},
		reasonCandidate{ReasonSecretsChanged, sealedRevision(p.Sealed) != sealedRevision(next.Sealed)},
	)
}

// maxClockDifference is the maximum tolerated difference between the clocks of two publishers. A publisher replaces a
// bundle whose issue time is further in the future.
const maxClockDifference = time.Hour

// statementReason returns the reason for a new bundle with unchanged documents, such as a due renewal. recordedSequence
// is the highest sequence number used in the epoch. validity is the minimum validity period of a bundle.
func statementReason(
	last, next bundle.Predicate, recordedSequence int64, validity time.Duration, now time.Time,
) Reason {
	life := last.ExpiresAt.Sub(last.IssuedAt)
	return firstReason(reasonCandidate{ReasonAudienceChanged, last.Audience != next.Audience},
		reasonCandidate{ReasonOwnerChanged, isOwnerChanged(last, next)},
		reasonCandidate{ReasonKymaChanged, last.KymaGeneration != next.KymaGeneration || last.KymaSpec != next.KymaSpec},
		reasonCandidate{ReasonCertificateIssued, last.Certificate != next.Certificate},
		reasonCandidate{ReasonEpochChanged, last.Epoch != next.Epoch},
		reasonCandidate{ReasonRootChanged, last.RootVersion != next.RootVersion},
		reasonCandidate{ReasonSequenceBehind, last.Sequence < recordedSequence},
		reasonCandidate{ReasonIssuedAhead, last.IssuedAt.Sub(now) > maxClockDifference},
		reasonCandidate{ReasonValidityTooShort, life < validity},
		reasonCandidate{ReasonRenewalDue, !now.Before(renewalTime(last))})
}

// renewalTime returns the time when a bundle's renewal is due, which is after a third of its validity period.
func renewalTime(p bundle.Predicate) time.Time {
	return p.IssuedAt.Add(p.ExpiresAt.Sub(p.IssuedAt) / 3)
}

func firstReason(all ...reasonCandidate) Reason {
	for _, d := range all {
		if d.applies {
			return d.reason
		}
	}
	return ""
}

func sealedRevision(s *bundle.Sealed) string {
	if s == nil {
		return ""
	}
	return s.Revision
}
