package plan

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Reason says why a runtime needs a new bundle. Empty means that it needs none.
type Reason string

// Why a runtime needs a new bundle. They are a label of a metric and a field of what `publish` prints: extend, do not
// rename.
const (
	// ReasonFirst: no bundle was published to the runtime before.
	ReasonFirst Reason = "First"
	// ReasonRegistryDiffers: the registry does not hold what was published.
	ReasonRegistryDiffers Reason = "RegistryDiffers"
	// ReasonDeleting: the Kyma was deleted, and the runtime is told to remove all modules.
	ReasonDeleting Reason = "Deleting"
	// ReasonRecreated: the last bundle said that the Kyma is deleted, and there is one again.
	ReasonRecreated Reason = "Recreated"
	// ReasonContentChanged: modules, settings, watchers or windows are others.
	ReasonContentChanged Reason = "ContentChanged"
	// ReasonCatalogChanged: the runtime sees another catalog.
	ReasonCatalogChanged Reason = "CatalogChanged"
	// ReasonRemovalAdded: a module is to go that the last bundle did not name.
	ReasonRemovalAdded Reason = "RemovalAdded"
	// ReasonRemovalWithdrawn: a module that was to go is asked for again.
	ReasonRemovalWithdrawn Reason = "RemovalWithdrawn"
	// ReasonRollbackAdded: a module goes back to an older version, which the last bundle did not say.
	ReasonRollbackAdded Reason = "RollbackAdded"
	// ReasonSecretsChanged: other Secrets are sealed for the runtime.
	ReasonSecretsChanged Reason = "SecretsChanged"
	// ReasonAudienceChanged: the runtime's cluster or key became known, changed, or was revoked.
	ReasonAudienceChanged Reason = "AudienceChanged"
	// ReasonOwnerChanged: the runtime belongs to another Kyma, which the last bundle does not name.
	ReasonOwnerChanged Reason = "OwnerChanged"
	// ReasonKymaChanged: the runtime's Kyma has another generation, or in a runtime with autonomy another spec, which the
	// bundle answers.
	ReasonKymaChanged Reason = "KymaChanged"
	// ReasonCertificateIssued: the agent gets a certificate, or another one.
	ReasonCertificateIssued Reason = "CertificateIssued"
	// ReasonEpochChanged: the root of trust began a new epoch.
	ReasonEpochChanged Reason = "EpochChanged"
	// ReasonRootChanged: there is a newer version of the root of trust.
	ReasonRootChanged Reason = "RootChanged"
	// ReasonSequenceBehind: the runtime or the status knows a newer bundle than the last one.
	ReasonSequenceBehind Reason = "SequenceBehind"
	// ReasonIssuedAhead: the last bundle was issued by a clock that was ahead, and no agent whose clock is right may take
	// it.
	ReasonIssuedAhead Reason = "IssuedAhead"
	// ReasonValidityTooShort: the last bundle would expire before it is carried to the runtime.
	ReasonValidityTooShort Reason = "ValidityTooShort"
	// ReasonRenewalDue: a third of the last bundle's validity is over.
	ReasonRenewalDue Reason = "RenewalDue"
)

// due is a reason and whether it holds.
type due struct {
	reason Reason
	holds  bool
}

// contentReason returns why a runtime is to do something else than the last bundle told it.
func contentReason(last *Published, documents bundle.Documents, next bundle.Predicate, asked []string) Reason {
	p := last.Predicate
	return first(
		due{ReasonDeleting, next.Deleting && !p.Deleting},
		due{ReasonRecreated, p.Deleting && !next.Deleting},
		due{ReasonContentChanged, documents.State.Descriptor.Digest != last.StateBlob.Digest},
		due{ReasonCatalogChanged, documents.Catalog.Descriptor.Digest != last.CatalogBlob.Digest},
		due{ReasonRemovalAdded, slices.ContainsFunc(next.Removals, func(m string) bool { return !slices.Contains(p.Removals, m) })},
		due{ReasonRemovalWithdrawn, slices.ContainsFunc(p.Removals, func(m string) bool { return slices.Contains(asked, m) })},
		due{ReasonRollbackAdded, slices.ContainsFunc(next.Rollback, func(r bundle.Rollback) bool { return !slices.Contains(p.Rollback, r) })},
		due{ReasonSecretsChanged, revision(p.Sealed) != revision(next.Sealed)},
	)
}

// maxAhead is by how much the clocks of two publishers may differ before the bundles of the one that is ahead are
// issued again. Agents allow for a day, of which their own clocks need a part.
const maxAhead = time.Hour

// statementReason returns why the same is to be stated once more. Remembered is the newest sequence that the control
// plane published in the epoch, validity how long a bundle has to be valid to arrive.
func statementReason(last, next bundle.Predicate, remembered int64, validity time.Duration, now time.Time) Reason {
	life := last.ExpiresAt.Sub(last.IssuedAt)
	return first(
		due{ReasonAudienceChanged, last.Audience != next.Audience},
		due{ReasonOwnerChanged, ownerChanged(last, next)},
		due{ReasonKymaChanged, last.KymaGeneration != next.KymaGeneration || last.KymaSpec != next.KymaSpec},
		due{ReasonCertificateIssued, last.Certificate != next.Certificate},
		due{ReasonEpochChanged, last.Epoch != next.Epoch},
		due{ReasonRootChanged, last.RootVersion != next.RootVersion},
		due{ReasonSequenceBehind, last.Sequence < remembered},
		due{ReasonIssuedAhead, last.IssuedAt.Sub(now) > maxAhead},
		due{ReasonValidityTooShort, life < validity},
		due{ReasonRenewalDue, !now.Before(last.IssuedAt.Add(life / 3))},
	)
}

func first(all ...due) Reason {
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
