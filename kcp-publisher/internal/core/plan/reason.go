package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Reason is the reason for publishing a new bundle, or empty.
type Reason string

// Reasons for a new bundle. They are values of a metric label, so do not rename them.
const (
	// ReasonFirst means that no bundle was published to the runtime before.
	ReasonFirst Reason = "First"
	// ReasonRegistryDiffers means that the registry does not have the published bundle.
	ReasonRegistryDiffers Reason = "RegistryDiffers"
	// ReasonDeleting means that the Kyma was deleted. The bundle removes all modules.
	ReasonDeleting Reason = "Deleting"
	// ReasonRecreated means that the last bundle was for a deleted Kyma, and the Kyma exists again.
	ReasonRecreated Reason = "Recreated"
	// ReasonContentChanged means that modules, settings, watchers or windows changed.
	ReasonContentChanged Reason = "ContentChanged"
	// ReasonCatalogChanged means that the runtime's catalog changed.
	ReasonCatalogChanged Reason = "CatalogChanged"
	// ReasonValuesChanged means that a value of the runtime's modules changed.
	ReasonValuesChanged Reason = "ValuesChanged"
	// ReasonRemovalAdded means that the next bundle removes an additional module.
	ReasonRemovalAdded Reason = "RemovalAdded"
	// ReasonRemovalWithdrawn means that a module that the last bundle removes is requested again.
	ReasonRemovalWithdrawn Reason = "RemovalWithdrawn"
	// ReasonRollbackAdded means that the next bundle contains an additional rollback.
	ReasonRollbackAdded Reason = "RollbackAdded"
	// ReasonSecretsChanged means that the sealed Secrets changed.
	ReasonSecretsChanged Reason = "SecretsChanged"
	// ReasonAudienceChanged means that the runtime's cluster or key changed.
	ReasonAudienceChanged Reason = "AudienceChanged"
	// ReasonOwnerChanged means that the runtime belongs to another Kyma than in the last bundle.
	ReasonOwnerChanged Reason = "OwnerChanged"
	// ReasonKymaChanged means that the runtime's Kyma has another generation or spec.
	ReasonKymaChanged Reason = "KymaChanged"
	// ReasonCertificateIssued means that the agent gets a new certificate.
	ReasonCertificateIssued Reason = "CertificateIssued"
	// ReasonEpochChanged means that the root of trust has a new epoch.
	ReasonEpochChanged Reason = "EpochChanged"
	// ReasonRootChanged means that the root of trust has a newer version.
	ReasonRootChanged Reason = "RootChanged"
	// ReasonSequenceBehind means that the Kyma's status or the runtime's report contains a bundle with a higher
	// sequence, or another bundle with the same sequence.
	ReasonSequenceBehind Reason = "SequenceBehind"
	// ReasonIssuedAhead means that agents refuse the last bundle, because the publisher's clock was ahead.
	ReasonIssuedAhead Reason = "IssuedAhead"
	// ReasonValidityTooShort means that the last bundle would expire before an operator has carried it to the runtime.
	ReasonValidityTooShort Reason = "ValidityTooShort"
	// ReasonRenewalDue means that a third of the last bundle's validity has passed.
	ReasonRenewalDue Reason = "RenewalDue"
)

// candidate is a possible reason for a new bundle. holds is true if the reason applies.
type candidate struct {
	reason Reason
	holds  bool
}

func contentReason(last *Published, documents bundle.Documents, next bundle.Predicate, asked []string) Reason {
	p := last.Predicate
	return first(
		candidate{ReasonDeleting, next.Deleting && !p.Deleting},
		candidate{ReasonRecreated, p.Deleting && !next.Deleting},
		candidate{ReasonContentChanged, documents.State.Descriptor.Digest != last.StateBlob.Digest},
		candidate{ReasonCatalogChanged, documents.Catalog.Descriptor.Digest != last.CatalogBlob.Digest},
		candidate{ReasonValuesChanged, !maps.Equal(p.Values, next.Values)},
		candidate{
			ReasonRemovalAdded, slices.ContainsFunc(next.Removals, func(m string) bool {
				return !slices.Contains(p.Removals, m)
			}),
		},
		candidate{
			ReasonRemovalWithdrawn, slices.ContainsFunc(p.Removals, func(m string) bool {
				return slices.Contains(asked, m)
			}),
		},
		candidate{
			ReasonRollbackAdded, slices.ContainsFunc(next.Rollback, func(r bundle.Rollback) bool {
				return !slices.Contains(p.Rollback, r)
			}),
		},
		candidate{ReasonSecretsChanged, revision(p.Sealed) != revision(next.Sealed)},
	)
}

// maxAhead is the tolerated difference between the clocks of two publishers. The publisher replaces a bundle that was
// issued further in the future.
const maxAhead = time.Hour

// statementReason returns the reason for a new statement about the same content. remembered is the highest used
// sequence of the epoch. validity is the minimum validity of a bundle.
func statementReason(last, next bundle.Predicate, remembered int64, validity time.Duration, now time.Time) Reason {
	life := last.ExpiresAt.Sub(last.IssuedAt)
	return first(candidate{ReasonAudienceChanged, last.Audience != next.Audience},
		candidate{ReasonOwnerChanged, ownerChanged(last, next)},
		candidate{ReasonKymaChanged, last.KymaGeneration != next.KymaGeneration || last.KymaSpec != next.KymaSpec},
		candidate{ReasonCertificateIssued, last.Certificate != next.Certificate},
		candidate{ReasonEpochChanged, last.Epoch != next.Epoch},
		candidate{ReasonRootChanged, last.RootVersion != next.RootVersion},
		candidate{ReasonSequenceBehind, last.Sequence < remembered},
		candidate{ReasonIssuedAhead, last.IssuedAt.Sub(now) > maxAhead},
		candidate{ReasonValidityTooShort, life < validity},
		candidate{ReasonRenewalDue, !now.Before(last.IssuedAt.Add(life / 3))})
}

func first(all ...candidate) Reason {
	for _, d := range all {
		if d.holds {
			return d.reason
		}
	}
	return ""
}

func revision(s *bundle.Sealed) string {
	if s == nil {
		return ""
	}
	return s.Revision
}
