package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// StoredBundle is the content of a runtime's repository in the registry.
type StoredBundle struct {
	// Digest is the digest of the bundle's OCI manifest. It is empty if the repository does not contain a bundle.
	Digest digest.Digest
	// Bundle is the decoded bundle. It is nil if this fleet did not sign it for this runtime.
	Bundle *PublishedBundle
	// Key is the thumbprint of the publisher key that signed the bundle.
	Key string
	// IsComplete is true if the registry contains all documents of the bundle.
	IsComplete bool
}

// Deviation is a difference between the registry and the published bundle.
type Deviation struct {
	// Reason is the reason for the condition Registry in the Kyma's status.
	Reason string
	// Message describes the bundle in the registry and the published bundle.
	Message string
}

// Adoption is the result of Adopt. It contains the data that the runtime's next bundle is based on.
type Adoption struct {
	// LastBundle is the bundle to compare with the next bundle, or nil.
	LastBundle *PublishedBundle
	// MayKeep is true if LastBundle is certainly the last published bundle. If it is false, the registry's owner could
	// have replaced the last bundle with an old one, so modules that cannot be resolved must not keep their content
	// from LastBundle.
	MayKeep bool
	// Sequence is the highest sequence number of a bundle in the root of trust's current epoch.
	Sequence int64
	// Deviation is the difference between the registry and the published bundle, or nil.
	Deviation *Deviation
	// Newer is the bundle in the registry if it is newer than all known bundles, for example after a restore of the
	// control plane. The runtime may have applied it. Newer is nil in all other cases and if this bundle is LastBundle.
	Newer *PublishedBundle
	// StoredPredicate is the signed content of the bundle in the registry, or nil.
	StoredPredicate *bundle.Predicate
}

// KeptBundle returns LastBundle if modules that cannot be resolved may keep their content from that bundle. Otherwise,
// it returns nil.
func (a Adoption) KeptBundle() *PublishedBundle {
	if a.MayKeep {
		return a.LastBundle
	}
	return nil
}

// Adopt chooses the bundle that a runtime's next bundle is based on. ownBundle is the last bundle of this process, and
// recorded is the bundle in the Kyma's status. Both can be nil. The bundle in the status takes precedence over the
// registry, with one exception: the publisher can crash after it pushed a bundle and before it updated the status.
// Therefore, Adopt uses a bundle in the registry that is the direct successor of the bundle in the status.
func Adopt(
	ownBundle *PublishedBundle, recorded *RecordedBundle, stored StoredBundle, root trust.Root, now time.Time,
) Adoption {
	last := RecordedBundle{}
	if recorded != nil {
		last = *recorded
	}
	if ownBundle != nil && recorded.isNewer(ownBundle) {
		ownBundle = nil // another publisher has published a newer bundle
	}
	adopted := Adoption{LastBundle: ownBundle, MayKeep: ownBundle != nil}
	if ownBundle != nil {
		last = RecordedBundle{
			Epoch: ownBundle.Predicate.Epoch, Sequence: ownBundle.Predicate.Sequence, Digest: ownBundle.Digest,
			Versions: ownBundle.Versions,
		}
	}
	if last.Epoch == root.Epoch {
		adopted.Sequence = last.Sequence
	}
	found, usable := stored.Bundle, stored.isUsable(root, adopted.Sequence, now)
	if found != nil {
		adopted.StoredPredicate = &found.Predicate
	}
	switch {
	case found != nil && found.Digest == last.Digest && stored.IsComplete:
		adopted.setLastBundle(found, last)
	case usable && stored.IsComplete && last.Digest != "" && isSuccessor(found, last):
		adopted.setLastBundle(found, last)
		adopted.Sequence = found.Predicate.Sequence
	case usable && stored.IsComplete && last.Digest == "" && ownBundle == nil:
		// The status contains no bundle, so the bundle in the registry may be an old one. Modules that cannot be
		// resolved must not reuse the content of this bundle.
		adopted.LastBundle, adopted.Sequence = found, found.Predicate.Sequence
	default:
		adopted.Deviation = findDeviation(stored, last, root, now)
		if usable {
			adopted.surpass(found, last)
		}
	}
	return adopted
}

// surpass makes the next bundle newer than a bundle in the registry that is not the last published bundle.
func (a *Adoption) surpass(found *PublishedBundle, last RecordedBundle) {
	a.Sequence = max(a.Sequence, found.Predicate.Sequence)
	if last.Digest != "" && found.Predicate.Sequence > last.Sequence {
		a.Newer = found
	}
}

// Applicable returns the bundle in the registry if the publisher cannot be sure that it is the last published bundle,
// or nil. The runtime may have applied this bundle, so the next bundle must not have older module versions.
func (a Adoption) Applicable() *PublishedBundle {
	if a.MayKeep || a.LastBundle == nil {
		return a.Newer
	}
	return a.LastBundle
}

// WithoutAdditions removes the modules that are not in the newest bundle if the request may be outdated. Without this
// step, a restored control plane would reinstall modules that the runtime's admin removed after the backup. The next
// bundle keeps the generation of the newest bundle, so that later calls return the same result.
func (a Adoption) WithoutAdditions(request resolve.Request, r Runtime) (resolve.Request, Runtime) {
	newest := cmp.Or(a.Newer, a.LastBundle)
	if newest == nil || newest.Predicate.Deleting || r.Request == nil || r.IsRequestVerified ||
		newest.Predicate.KymaGeneration == r.KymaGeneration {
		return request, r
	}
	r.KymaGeneration, r.KymaSpec = newest.Predicate.KymaGeneration, newest.Predicate.KymaSpec
	request.Requested.Modules = slices.DeleteFunc(slices.Clone(request.Requested.Modules),
		func(m v1beta2.Module) bool {
			isProblem := func(p bundle.Problem) bool { return p.Module == m.Name }
			return !newest.hasModule(m.Name) && !slices.ContainsFunc(newest.State.Problems, isProblem)
		})
	return request, r
}

// IsUnrecorded reports whether the publisher must record the last bundle in the Kyma's status before the next push.
func (a Adoption) IsUnrecorded(remembered *RecordedBundle) bool {
	return remembered != nil && a.MayKeep && a.LastBundle.Digest != remembered.Digest
}

func (a *Adoption) setLastBundle(found *PublishedBundle, last RecordedBundle) {
	if a.LastBundle == nil || a.LastBundle.Digest != found.Digest {
		next := *found
		next.Versions = versionsAfter(found, last.Versions)
		a.LastBundle = &next
	}
	a.MayKeep = true
}

// versionsAfter returns the versions in the bundle, and the previous versions of modules that the bundle neither
// contains nor removes.
func versionsAfter(p *PublishedBundle, before map[string]string) map[string]string {
	versions := maps.Clone(before)
	if versions == nil {
		versions = map[string]string{}
	}
	for _, module := range p.Predicate.Removals {
		delete(versions, module)
	}
	maps.Copy(versions, resolve.ModuleVersions(p.State))
	return versions
}

// isUsable reports whether the bundle in the registry is signed with a key in the current root of trust and has a
// plausible sequence number. last is the last sequence number of the epoch. A sequence number in the future is
// plausible only if it is close to last.
func (s StoredBundle) isUsable(root trust.Root, last int64, now time.Time) bool {
	return s.Bundle != nil && root.TrustsKey(s.Key) && s.Bundle.Predicate.Epoch == root.Epoch &&
		!isFarAhead(s.Bundle.Predicate.Sequence, last, now)
}

func isSuccessor(found *PublishedBundle, last RecordedBundle) bool {
	p := found.Predicate
	return p.Epoch == last.Epoch && p.Previous != nil &&
		*p.Previous == bundle.Position{Sequence: last.Sequence, Digest: last.Digest} && p.Sequence > last.Sequence
}

// findDeviation returns the difference between the bundle in the registry and the last published bundle. It returns nil
// if both are equal, or if agents ignore the difference.
func findDeviation(s StoredBundle, last RecordedBundle, root trust.Root, now time.Time) *Deviation {
	expected := "no published bundle is recorded"
	if last.Digest != "" {
		expected = fmt.Sprintf("the last published bundle is %d of epoch %d, %s", last.Sequence, last.Epoch,
			last.Digest)
	}
	deviates := func(reason, format string, args ...any) *Deviation {
		return &Deviation{Reason: reason, Message: fmt.Sprintf(format, args...) + ": " + expected}
	}
	found := s.Bundle
	switch {
	case s.Digest == "" && last.Digest == "":
		return nil
	case s.Digest == "":
		return deviates(v1beta2.ReasonBundleMissing, "the registry has no bundle")
	case found == nil:
		return deviates(v1beta2.ReasonBundleForeign,
			"the registry has manifest %s, which no publisher of this fleet signed for the runtime", s.Digest)
	case found.Digest == last.Digest:
		return deviates(v1beta2.ReasonBundleIncomplete, "the registry has the bundle without its documents")
	case !root.TrustsKey(s.Key):
		return deviates(v1beta2.ReasonBundleForeign,
			"the registry has bundle %d, signed by key %s, which is no longer a publisher key",
			found.Predicate.Sequence, trust.ShortThumbprint(s.Key))
	case found.Predicate.Epoch != root.Epoch && last.Digest == "":
		return nil // agents refuse a bundle from an earlier epoch
	case found.Predicate.Epoch != root.Epoch:
		return deviates(v1beta2.ReasonBundleReplayed, "the registry has bundle %d of epoch %d",
			found.Predicate.Sequence,
			found.Predicate.Epoch)
	case isFarAhead(found.Predicate.Sequence, last.Sequence, now):
		return deviates(v1beta2.ReasonBundleAhead, "the registry has bundle %d, whose sequence is in the future",
			found.Predicate.Sequence)
	case found.Predicate.Sequence <= last.Sequence:
		return deviates(v1beta2.ReasonBundleReplayed, "the registry has the older bundle %d, %s",
			found.Predicate.Sequence,
			found.Digest)
	case !s.IsComplete:
		return deviates(v1beta2.ReasonBundleIncomplete, "the registry has bundle %d without its documents",
			found.Predicate.Sequence)
	}
	return deviates(v1beta2.ReasonBundleUnknown,
		"the registry has bundle %d, %s, which this publisher does not know: another publisher is active, or the "+
			"control plane lost its record", found.Predicate.Sequence, found.Digest)
}

// statements contains the removals and rollbacks in the last known bundle. Later bundles repeat them until the runtime
// has applied one of these bundles.
type statements struct {
	digest         digest.Digest
	removals       []string
	rolledBackFrom map[string]string
}

// lastStatements returns the removals and rollbacks in the last bundle. If that bundle is not available, it returns
// those in the Kyma's status.
func (a Adoption) lastStatements(remembered *RecordedBundle) statements {
	switch {
	case a.LastBundle != nil:
		record := a.LastBundle.StatusEntry()
		return statements{a.LastBundle.Digest, record.Removals, record.RolledBackFrom}
	case remembered != nil:
		return statements{remembered.Digest, remembered.Removals, remembered.RolledBackFrom}
	}
	return statements{}
}

// nextRollbacks returns the rollbacks in the next bundle. Bundles repeat a rollback until the runtime has applied it.
// Otherwise, an agent that was offline would refuse the older module version.
func (s statements) nextRollbacks(granted, wanted map[string]string, observed digest.Digest) (all []bundle.Rollback) {
	from := map[string]string{}
	if observed != s.digest {
		maps.Copy(from, s.rolledBackFrom)
	}
	for module, version := range granted {
		if from[module] == "" || bundle.IsOlder(from[module], version) {
			from[module] = version
		}
	}
	for _, module := range slices.Sorted(maps.Keys(from)) {
		if to, asked := wanted[module]; asked && bundle.IsOlder(to, from[module]) {
			all = append(all, bundle.Rollback{Module: module, From: from[module], To: to})
		}
	}
	return all
}

// CheckOwner returns an error if the bundle in the registry belongs to another Kyma and no operator has assigned the
// runtime to this Kyma since then.
//
// CheckOwner compares the names of the Kymas, because their UIDs change if the control plane is rebuilt. Bundles from
// publishers before version 0.1.0 do not contain a Kyma. They belong to the Kyma whose name is the runtime ID.
func (a Adoption) CheckOwner(r Runtime) error {
	if a.StoredPredicate == nil || a.StoredPredicate.Audience.KeyThumbprint == "" {
		return nil
	}
	owner := a.StoredPredicate.Owner()
	switch {
	case r.AssignedAt > 0 && !r.isFormerOwner(*a.StoredPredicate), owner.IsZero(),
		owner.UID != "" && owner.UID == r.Kyma.UID,
		owner.Name != "" && owner.SameName(r.Kyma),
		owner.Name == "" && r.Kyma.Name == r.ID:
		return nil
	}
	own := trust.Kyma{Namespace: r.Kyma.Namespace, Name: r.Kyma.Name}
	return reason.Errorf(
		reason.RuntimeUnassigned,
		"runtime %s enrolled with Kyma %s, and no operator has assigned it to Kyma %s: run `kcp-publisher enroll %s "+
			"--replace --kyma %s`",
		r.ID,
		owner,
		own,
		r.ID,
		own,
	)
}

// isFormerOwner reports whether the stored bundle shows that this Kyma lost the runtime to a newer owner. This is
// possible if the Kyma was restored from a backup.
func (r Runtime) isFormerOwner(stored bundle.Predicate) bool {
	return slices.Contains(stored.FormerKymas, r.Kyma) && !slices.Contains(r.FormerOwners, stored.Owner()) &&
		stored.IssuedAt.UnixMilli() > r.AssignedAt
}

// listFormerOwners returns the Kymas that owned the runtime before. An agent accepts a bundle from another Kyma only if
// the bundle lists the agent's previous Kyma as a former owner. All later bundles repeat the list, because an agent
// that was offline might not have read the earlier ones.
func (a Adoption) listFormerOwners(r Runtime) []trust.Kyma {
	var all []trust.Kyma
	add := func(former trust.Kyma) {
		if !former.IsZero() && former != r.Kyma && !slices.Contains(all, former) {
			all = append(all, former)
		}
	}
	last := a.StoredPredicate
	if last == nil && a.LastBundle != nil {
		last = &a.LastBundle.Predicate
	}
	if last != nil {
		for _, former := range last.FormerKymas {
			add(former)
		}
	}
	for _, former := range r.FormerOwners {
		add(former)
	}
	if last != nil && last.Kyma != nil {
		add(*last.Kyma)
	}
	return all[max(0, len(all)-bundle.MaxFormerKymas):]
}

func knownKyma(kyma trust.Kyma) *trust.Kyma {
	if kyma.Name == "" {
		return nil
	}
	return &kyma
}

// isOwnerChanged reports whether the next bundle has a different owner or different former owners than the last bundle.
// It returns false if the last bundle does not contain a Kyma, because an old publisher version created it.
func isOwnerChanged(last, next bundle.Predicate) bool {
	switch {
	case !slices.Equal(last.FormerKymas, next.FormerKymas):
		return true
	case last.Kyma == nil:
		return last.KymaUID != "" && last.KymaUID != next.KymaUID
	}
	return next.Kyma == nil || *last.Kyma != *next.Kyma
}

// isNewer reports whether m, the bundle in the Kyma's status, is newer than the published bundle.
func (m *RecordedBundle) isNewer(published *PublishedBundle) bool {
	return m != nil &&
		(m.Epoch > published.Predicate.Epoch || m.Epoch == published.Predicate.Epoch &&
			m.Sequence > published.Predicate.Sequence)
}
