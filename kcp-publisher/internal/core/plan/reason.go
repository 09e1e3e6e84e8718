package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Reason is the reason why a runtime needs a new bundle. It is empty if the runtime does not need one.
type Reason string

// The reasons for a new bundle. A metric label and the output of `publish` contain them, so do not rename them.
const (
	// ReasonFirst: no bundle was published to the runtime before.
	ReasonFirst Reason = "First"
	// ReasonRegistryDiffers: the registry does not have the published bundle.
	ReasonRegistryDiffers Reason = "RegistryDiffers"
	// ReasonDeleting: the Kyma was deleted, and the bundle removes all modules.
	ReasonDeleting Reason = "Deleting"
	// ReasonRecreated: the last bundle was for a deleted Kyma, and the Kyma exists again.
	ReasonRecreated Reason = "Recreated"
	// ReasonContentChanged: modules, settings, watchers or windows changed.
	ReasonContentChanged Reason = "ContentChanged"
	// ReasonCatalogChanged: the runtime sees another catalog.
	ReasonCatalogChanged Reason = "CatalogChanged"
	// ReasonValuesChanged: a value that the runtime's modules use changed.
	ReasonValuesChanged Reason = "ValuesChanged"
	// ReasonRemovalAdded: the next bundle removes a module that the last bundle did not remove.
	ReasonRemovalAdded Reason = "RemovalAdded"
	// ReasonRemovalWithdrawn: a module that the last bundle removes is requested again.
	ReasonRemovalWithdrawn Reason = "RemovalWithdrawn"
	// ReasonRollbackAdded: the next bundle contains a rollback that the last bundle did not contain.
	ReasonRollbackAdded Reason = "RollbackAdded"
	// ReasonSecretsChanged: the sealed Secrets changed.
	ReasonSecretsChanged Reason = "SecretsChanged"
	// ReasonAudienceChanged: the runtime's cluster or key was first reported, changed, or was revoked.
	ReasonAudienceChanged Reason = "AudienceChanged"
	// ReasonOwnerChanged: the runtime belongs to a different Kyma than the one in the last bundle.
	ReasonOwnerChanged Reason = "OwnerChanged"
	// ReasonKymaChanged: the generation of the runtime's Kyma changed or, with autonomy, its spec.
	ReasonKymaChanged Reason = "KymaChanged"
	// ReasonCertificateIssued: the agent gets a new certificate.
	ReasonCertificateIssued Reason = "CertificateIssued"
	// ReasonEpochChanged: the root of trust began a new epoch.
	ReasonEpochChanged Reason = "EpochChanged"
	// ReasonRootChanged: the root of trust has a newer version.
	ReasonRootChanged Reason = "RootChanged"
	// ReasonSequenceBehind: the Kyma's status or the runtime's report contains a higher sequence than the last bundle,
	// or the runtime reports another bundle with the same sequence.
	ReasonSequenceBehind Reason = "SequenceBehind"
	// ReasonIssuedAhead: a publisher whose clock was ahead issued the last bundle, and agents with correct clocks
	// refuse it.
	ReasonIssuedAhead Reason = "IssuedAhead"
	// ReasonValidityTooShort: the last bundle would expire before an operator has carried it to the runtime.
	ReasonValidityTooShort Reason = "ValidityTooShort"
	// ReasonRenewalDue: a third of the last bundle's validity has passed.
	ReasonRenewalDue Reason = "RenewalDue"
)

// candidate is a possible reason for a new bundle. holds is true if the reason applies.
type candidate struct {
	reason Reason
	holds  bool
}

// contentReason returns the first reason for new content in the bundle.
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

// maxAhead is the largest tolerated difference between the clocks of two publishers. The publisher replaces a bundle
// whose issue time is further in the future. Agents tolerate one day, which must also cover the error of an agent's own
// clock.
const maxAhead = time.Hour

// statementReason returns the first reason for a new statement about the same content. remembered is the highest used
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
