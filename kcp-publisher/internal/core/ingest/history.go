package ingest

import (
	"maps"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// A Kyma's status contains a history of the runtime's last bundles, which operators can read. The history is not
// signed. If only outcomes in the history change, the publisher does not update the status.

// maxHistory limits the number of bundles in the history. maxVersionChanges limits the version changes of each bundle.
// A bundle takes about 300 bytes. maxChanged limits the modules that changed since a bundle.
const (
	maxHistory        = 5
	maxVersionChanges = 3
	maxChanged        = 50
)

// nextHistory returns the history with the latest bundle. before is the previous status, or nil. The records of earlier
// bundles contain the modules that have changed in later bundles, until the runtime reports the latest bundle.
func nextHistory(
	before *v1beta2.RuntimeStatus, published *v1beta2.PublishedBundle, facts Facts,
) []v1beta2.BundleRecord {
	if before == nil {
		before = &v1beta2.RuntimeStatus{}
	}
	all, last := slices.Clone(before.History), before.Published
	// Add a bundle only if it is new. Otherwise, the first publisher version with a history would update every Kyma's
	// status.
	if last == nil || last.Digest != published.Digest {
		all = slices.DeleteFunc(all, func(b v1beta2.BundleRecord) bool { return b.Digest == published.Digest })
		supersede(all, last, facts.Published)
		all = append([]v1beta2.BundleRecord{newRecord(last, published)}, all...)
		all = all[:min(len(all), maxHistory)]
	}
	if isApplied(facts) {
		for i := range all {
			all[i].Superseded = nil
		}
	}
	return all
}

// A report contains the digest of the applied bundle, and its module states are valid for that bundle. Most new bundles
// change only a few modules. For all other modules, a report about an earlier bundle is also valid for the latest
// bundle. The publisher therefore records the changed modules when it publishes a bundle.

// supersede adds the modules that the latest bundle changes to the records of all earlier bundles that the runtime may
// still report as applied. last is the bundle before the latest one, or nil.
func supersede(all []v1beta2.BundleRecord, last *v1beta2.PublishedBundle, latest *plan.PublishedBundle) {
	previous, changes := latest.Predicate.Previous, latest.Changes
	isKnown := last != nil && previous != nil && changes != nil && previous.Digest.String() == last.Digest
	for i := range all {
		difference := all[i].Superseded
		if isKnown && all[i].Digest == last.Digest {
			difference = &v1beta2.BundleDifference{}
		}
		if all[i].Superseded = nil; !isKnown || difference == nil {
			continue
		}
		changed := slices.Concat(difference.Changed, changes.Modules)
		slices.Sort(changed)
		if changed = slices.Compact(changed); len(changed) <= maxChanged {
			all[i].Superseded = &v1beta2.BundleDifference{Changed: changed}
		}
	}
}

// recordOutcomes adds the runtime's refusals and its last report to the history in the next status.
func recordOutcomes(all []v1beta2.BundleRecord, after v1beta2.KymaStatus, facts Facts) {
	observed, published := after.Runtime.Observed, after.Runtime.Published
	if published == nil {
		return
	}
	recordRefusals(all, facts)
	if observed == nil || observed.Digest == "" {
		return
	}
	for i := range all {
		b := &all[i]
		if b.Digest != observed.Digest {
			continue
		}
		if b.Applied == nil {
			b.Applied = observed.Heard.DeepCopy()
		}
		if b.Refused = ""; b.Digest == published.Digest {
			b.State = worstState(after.Modules)
		}
	}
}

func newRecord(last, published *v1beta2.PublishedBundle) v1beta2.BundleRecord {
	b := v1beta2.BundleRecord{
		Epoch: published.Epoch, Sequence: published.Sequence, Digest: published.Digest, Published: published.Time,
		Commit: published.Commit,
	}
	b.Changes = versionChanges(bundleVersions(last), published.Versions)
	if more := len(b.Changes) - maxVersionChanges; more > 0 {
		b.Changes, b.More = slices.Clone(b.Changes[:maxVersionChanges]), int32(more)
	}
	return b
}

func versionChanges(before, after map[string]string) []v1beta2.VersionChange {
	names := map[string]struct{}{}
	for module := range before {
		names[module] = struct{}{}
	}
	for module := range after {
		names[module] = struct{}{}
	}
	var all []v1beta2.VersionChange
	for _, module := range slices.Sorted(maps.Keys(names)) {
		if from, to := before[module], after[module]; from != to {
			all = append(all, v1beta2.VersionChange{Module: module, From: from, To: to})
		}
	}
	return all
}

func recordRefusals(all []v1beta2.BundleRecord, facts Facts) {
	if facts.Report == nil {
		return
	}
	for _, refused := range facts.Report.Refused {
		for i := range all {
			if all[i].Digest != refused.Digest.String() || all[i].Applied != nil {
				continue
			}
			all[i].Refused = string(refusal.Known(refused.Reason))
		}
	}
}

// worstState returns the worst state of all managed modules. If no module is managed, it returns Ready.
func worstState(modules []v1beta2.ModuleStatus) v1beta2.State {
	worst := v1beta2.StateReady
	for i := range modules {
		if s := modules[i].State; s != v1beta2.StateUnmanaged {
			worst = worseState(worst, s)
		}
	}
	return worst
}

// findDifference returns the difference between the latest bundle and the earlier bundle that the latest report lists
// as applied. It returns nil if the history does not contain this difference, or if the runtime has had enough time to
// apply the latest bundle.
func findDifference(r *v1beta2.RuntimeStatus, facts Facts, now time.Time) *v1beta2.BundleDifference {
	if facts.Report == nil || facts.Report.Observed == nil ||
		now.Sub(r.Published.Time.Time) > facts.SilenceTimeout {
		return nil
	}
	for i := range r.History {
		if r.History[i].Digest == facts.Report.Observed.Digest.String() {
			return r.History[i].Superseded
		}
	}
	return nil
}

// ReportDeadline returns the time until which a report about an earlier bundle is sufficient for a healthy runtime. It
// returns zero if the runtime has already reported the latest bundle as applied.
func ReportDeadline(status v1beta2.KymaStatus, silence time.Duration) time.Time {
	r := status.Runtime
	if r == nil || r.Published == nil ||
		!slices.ContainsFunc(r.History, func(b v1beta2.BundleRecord) bool { return b.Superseded != nil }) {
		return time.Time{}
	}
	return r.Published.Time.Add(silence)
}

// isStateValid reports whether the reported state of a module is valid for the latest bundle. A report about an earlier
// bundle is sufficient if the module has not changed since that bundle.
func (f Facts) isStateValid(module string) bool {
	return isApplied(f) || f.difference != nil && !slices.Contains(f.difference.Changed, module)
}

func (f Facts) areAllStatesValid() bool {
	return isApplied(f) || f.difference != nil && len(f.difference.Changed) == 0
}

// isReleased reports whether the latest bundle hands the runtime back to lifecycle-manager.
func (f Facts) isReleased() bool { return f.Published != nil && phase.IsReleased(f.Published.State) }

// runningVersion returns the version of a module that the runtime reports, or "". If the report was truncated and omits
// modules, it returns the version in the previous status.
func runningVersion(m bundle.Manifest, r bundle.ReportedModule, before []v1beta2.ModuleStatus, facts Facts) string {
	switch {
	case r.Name != "":
		return r.Version
	case m.Unmanaged && facts.isStateValid(m.Module):
		return m.Version
	case facts.Report == nil || facts.Report.OmitsModules() || facts.isReleased():
		for i := range before {
			if before[i].Name == m.Module {
				return before[i].Version
			}
		}
	}
	return ""
}
