package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// NewRemovals contains the module removals that are new in a bundle and that the runtime did not request.
type NewRemovals struct {
	Runtime string
	// Modules lists the removed modules, sorted. A single empty name means all modules, because the Kyma was deleted.
	Modules []string
	// Unrecorded lists the modules in Modules that are known only from the runtime's report.
	Unrecorded []string
	// Unverified lists additional modules that are missing in the runtime's request. The request may be outdated, so
	// the bundle keeps these modules until the request is verified.
	Unverified []string
	// Restored lists the modules in Modules that may be missing in the Kyma's status, because the status is older than
	// the runtime's state. The control plane may have been restored from a backup.
	Restored []string
	// NewestBundle is the time of the newest bundle that the registry or the runtime's report contains, or zero.
	NewestBundle time.Time
	// IsUnenrolled is true if the runtime enrolled before and the Kyma's status does not contain its enrollment yet. The
	// runtime's request is unknown until the publisher accepts a report.
	IsUnenrolled bool
	// IsChanging is true while a change to the catalog is in progress. During this time, the publisher decides only
	// about the removals of deleted Kymas.
	IsChanging bool
}

// Removing returns the module removals that are new in a runtime's next bundle and that the runtime did not request.
func (a Adoption) Removing(next bundle.Predicate, r Runtime) NewRemovals {
	found := NewRemovals{
		Runtime: r.ID, IsChanging: r.IsChanging, NewestBundle: a.newestBundle(next, r), IsUnenrolled: a.isUnenrolled(r),
	}
	if !r.IsInUse && !found.IsUnenrolled {
		return found
	}
	isRestored := a.isRestored(r) || found.IsUnenrolled
	if next.Deleting {
		if a.LastBundle == nil || !a.LastBundle.Predicate.Deleting {
			found.Modules = []string{""}
		}
		if isRestored {
			found.Restored = found.Modules
		}
		return found
	}
	known := a.lastStatements(r.RecordedBundle).removals
	for _, module := range next.Removals {
		switch {
		case slices.Contains(known, module):
		case r.requestsRemoval(module, a.KeptBundle(), isRestored):
			if !r.IsRequestVerified {
				found.Unverified = append(found.Unverified, module)
			}
		default:
			found.Modules = append(found.Modules, module)
			// CollectPending gets the earlier decision from a cache that can be older than r.
			if isRestored || a.isMissingInStatus(module, r) || slices.Contains(r.RemovalsHeldByRestore, module) {
				found.Restored = append(found.Restored, module)
			}
			if !a.records(module, r) {
				found.Unrecorded = append(found.Unrecorded, module)
			}
		}
	}
	return found
}

// isUnenrolled reports whether the runtime enrolled before, but the Kyma's status does not contain the enrollment: The
// registry has a bundle for an enrolled key, or a removal still waits because of such a bundle. This happens if the
// control plane was built again, or if an operator has just assigned the runtime to this Kyma.
func (a Adoption) isUnenrolled(r Runtime) bool {
	if r.IsInUse {
		return false
	}
	stored := a.StoredPredicate
	return len(r.RemovalsHeldByRestore) > 0 ||
		stored != nil && stored.Audience.KeyThumbprint != "" && !stored.Deleting
}

// newestBundle returns the time of the newest known bundle. It ignores a reported sequence number in the future.
func (a Adoption) newestBundle(next bundle.Predicate, r Runtime) time.Time {
	newest := a.Sequence
	if a.LastBundle != nil {
		newest = max(newest, a.LastBundle.Predicate.Sequence)
	}
	if !IsAhead(r.ObservedSequence, next.IssuedAt) {
		newest = max(newest, r.ObservedSequence)
	}
	if newest == 0 {
		return time.Time{}
	}
	return time.UnixMilli(newest)
}

// records reports whether the last bundle or the Kyma's status contains a module. It does not use the runtime's report.
func (a Adoption) records(module string, r Runtime) bool {
	if _, published := r.PublishedVersions[module]; published || slices.Contains(r.Mandatory, module) {
		return true
	}
	return a.LastBundle != nil && a.LastBundle.hasModule(module)
}

// isMissingInStatus reports whether the last bundle contains a module that the Kyma's status does not contain. Either
// the publisher stopped between the push and the update of the status, or the control plane was restored from a backup
// that lacks only this bundle. In both cases, the registry and the report have the same content.
func (a Adoption) isMissingInStatus(module string, r Runtime) bool {
	kept := a.KeptBundle()
	if kept == nil || r.RecordedBundle == nil || kept.Predicate.Epoch == r.RecordedBundle.Epoch &&
		kept.Predicate.Sequence <= r.RecordedBundle.Sequence {
		return false
	}
	_, recorded := r.RecordedBundle.Versions[module]
	return !recorded && kept.hasModule(module)
}

// isRestored reports whether the bundle in the Kyma's status is older than the bundle in the registry or in the
// runtime's report, or whether the runtime refused it as outdated.
func (a Adoption) isRestored(r Runtime) bool {
	if r.RecordedBundle == nil || a.LastBundle != nil && a.LastBundle.Predicate.Deleting {
		return false
	}
	if d := a.Deviation; d != nil && d.Reason == v1beta2.ReasonBundleUnknown || a.LastBundle != nil && !a.MayKeep ||
		r.IsRecordOutdated {
		return true
	}
	newest := *r.RecordedBundle
	if kept := a.KeptBundle(); kept != nil &&
		(kept.Predicate.Epoch > newest.Epoch || kept.Predicate.Sequence > newest.Sequence) {
		newest.Epoch, newest.Sequence = kept.Predicate.Epoch, kept.Predicate.Sequence
	}
	return r.ObservedEpoch > newest.Epoch || r.ObservedEpoch == newest.Epoch && r.ObservedSequence > newest.Sequence
}

// requestsRemoval reports whether the runtime itself requests the removal, because its request does not contain the
// module. It returns false in two cases:
//   - The last bundle contains the module and was built for the same request. The module was in the control plane's
//     Kyma, and the publisher used that Kyma's spec until an operator removed the label v1beta2.LabelSync.
//   - The control plane was restored from a backup and the last bundle does not contain the module, because the module
//     may have been mandatory. While the removal waits for approval, later calls return the same result.
func (r Runtime) requestsRemoval(module string, last *PublishedBundle, restored bool) bool {
	if r.Request == nil || slices.Contains(r.Mandatory, module) || requestsModule(*r.Request, module) ||
		slices.Contains(r.RemovalsHeldByRestore, module) && slices.Contains(r.Installed, module) {
		return false
	}
	if last != nil {
		for _, m := range last.State.Manifests {
			if m.Module == module {
				return m.Labels[v1beta2.LabelMandatoryModule] != v1beta2.True &&
					(!r.IsRequestVerified || isNewRequest(last.Predicate.KymaGeneration, r.KymaGeneration))
			}
		}
	}
	_, remembered := r.grantedVersions()[module]
	return remembered && !restored
}

// isNewRequest reports whether a bundle was built for another request than the runtime's current one. Both parameters
// are generations of the Kyma in the runtime. A bundle before the first report has generation 0.
func isNewRequest(published, current int64) bool { return published != current || current == 0 }

func requestsModule(spec v1beta2.KymaSpec, module string) bool {
	return slices.ContainsFunc(spec.Modules, func(m v1beta2.Module) bool { return m.Name == module })
}

func (r Rules) canReceiveRemovals(kyma *v1beta2.Kyma) bool {
	s := kyma.Status.Runtime
	return s != nil && s.Published != nil && r.isInUse(kyma) && !IsSkipped(kyma)
}

// CountRemovable returns the number of runtimes that have modules or recently lost modules.
func (r Rules) CountRemovable(kymas []v1beta2.Kyma, recent []removal.Removal) int {
	exposed := map[string]bool{}
	for i := range kymas {
		kyma := &kymas[i]
		if r.canReceiveRemovals(kyma) &&
			(len(kyma.Status.Runtime.Published.Versions) > 0 || !kyma.DeletionTimestamp.IsZero()) {
			exposed[RuntimeID(kyma)] = true
		}
	}
	for _, removed := range recent {
		exposed[removed.Runtime] = true
	}
	return len(exposed)
}

// PendingRemovals returns the removals that are new in a Kyma's next bundle and that the runtime did not request. It
// computes them from the Kyma's status and the catalog. If the catalog is nil, it returns only the removal of a deleted
// Kyma.
func PendingRemovals(kyma *v1beta2.Kyma, snapshot *catalog.Snapshot) []string {
	s := kyma.Status.Runtime
	if !(Rules{}).canReceiveRemovals(kyma) {
		return nil
	}
	if !kyma.DeletionTimestamp.IsZero() {
		if decision := FindRemovalDecision(kyma, ""); decision != nil && decision.Published {
			return nil
		}
		return []string{""}
	}
	if snapshot == nil {
		return nil
	}
	request, err := parseRequest(kyma)
	if err == nil {
		err = setTakeover(&request, kyma)
	}
	if err != nil {
		return nil // the publisher does not publish bundles for an invalid Kyma
	}
	kept := resolve.KeptModules(request, snapshot, s.Published.Versions, publishedChannels(kyma))
	var pending []string
	for _, module := range slices.Sorted(maps.Keys(s.Published.Versions)) {
		switch own := ownRequest(kyma); {
		case slices.Contains(kept, module), slices.Contains(s.Published.Removals, module):
		case own != nil && !requestsModule(*own, module) && !slices.Contains(s.Published.Mandatory, module) &&
			isNewRequest(s.Published.KymaGeneration, s.Requested.Generation):
			// The runtime's own Kyma requests the removal, so it does not need approval.
		default:
			pending = append(pending, module)
		}
	}
	return pending
}

// CollectPending returns the pending removals of a Kyma's modules, with the earlier decisions in the Kyma's status.
// compared is the start time of the last comparison with Git that found the newest commit completely applied, or zero.
//
// After a restore of the control plane, a decision that is older than the runtime's newest bundle does not count. That
// bundle contains the module, so the removal was withdrawn after the backup.
func CollectPending(kyma *v1beta2.Kyma, removing NewRemovals, compared time.Time) (all []removal.PendingRemoval) {
	for _, module := range removing.Modules {
		p := removal.PendingRemoval{
			Removal:    removal.Removal{Runtime: RuntimeID(kyma), Module: module},
			Restored:   slices.Contains(removing.Restored, module),
			Unrecorded: slices.Contains(removing.Unrecorded, module),
		}
		switch d := FindRemovalDecision(kyma, module); {
		case d == nil, d.Published:
		case d.Decision != v1beta2.RemovalHeld:
			p.Approved = !p.Restored || d.Time.After(removing.NewestBundle)
		default:
			p.HeldReason, p.Approved = removal.Reason(d.Reason), isApproved(kyma, *d)
			if p.HeldReason == removal.Restored && !removing.IsUnenrolled {
				p.Restored = !compared.After(d.Time.Time)
			}
		}
		all = append(all, p)
	}
	return all
}
