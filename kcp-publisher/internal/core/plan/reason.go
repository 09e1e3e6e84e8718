package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Reason is the reason for publishing a new bundle, or empty.
type Reason string

// These are the reasons for a new bundle. They are values of a metric label, so do not rename them.
const (
	// ReasonFirst means that no bundle was published to the runtime before.
	ReasonFirst Reason = "First"
	// ReasonRegistryDiffers means that the registry does not have the published bundle.
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
	// ReasonValuesChanged means that a runtime value that the modules use changed.
	ReasonValuesChanged Reason = "ValuesChanged"
	// ReasonRemovalAdded means that the new bundle removes a module that the last bundle does not remove.
	ReasonRemovalAdded Reason = "RemovalAdded"
	// ReasonRemovalWithdrawn means that the last bundle removes a module that is now requested again.
	ReasonRemovalWithdrawn Reason = "RemovalWithdrawn"
	// ReasonRollbackAdded means that the new bundle contains a rollback that the last bundle does not contain.
	ReasonRollbackAdded Reason = "RollbackAdded"
	// ReasonSecretsChanged means that the encrypted Secrets in the bundle changed.
	ReasonSecretsChanged Reason = "SecretsChanged"
	// ReasonAudienceChanged means that the runtime enrolled with another cluster or another key than the last bundle was
	// issued for.
	ReasonAudienceChanged Reason = "AudienceChanged"
	// ReasonOwnerChanged means that the runtime now belongs to another Kyma than in the last bundle.
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

// statementReason returns the reason for a new bundle if its documents did not change, such as a due renewal.
// recordedSequence is the highest used sequence number of the epoch. validity is the minimum validity period of a
// bundle.
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
		reasonCandidate{ReasonRenewalDue, !now.Before(last.IssuedAt.Add(life / 3))})
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
