package ingest

import (
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// A Kyma's status contains a history of the runtime's last bundles, which operators can read. The history is not
// signed. If only the history changes, the publisher does not update the status.

// maxHistory limits the number of bundles in the history. maxVersionChanges limits the version changes of each bundle.
// A bundle takes about 300 bytes.
const (
	maxHistory        = 5
	maxVersionChanges = 3
)

// updateHistory returns the history after a reconcile. before is the previous status, or nil.
func updateHistory(before *v1beta2.RuntimeStatus, after v1beta2.KymaStatus, facts Facts) []v1beta2.BundleRecord {
	all, published := after.Runtime.History, after.Runtime.Published
	if published == nil {
		return all
	}
	var last *v1beta2.PublishedBundle
	if before != nil {
		last = before.Published
	}
	// Add a bundle only if it is new. Otherwise, the first publisher version with a history would update every Kyma's
	// status.
	if last == nil || last.Digest != published.Digest {
		all = slices.DeleteFunc(all, func(b v1beta2.BundleRecord) bool { return b.Digest == published.Digest })
		all = append([]v1beta2.BundleRecord{newRecord(last, published)}, all...)
		all = all[:min(len(all), maxHistory)]
	}
	recordRefusals(all, facts)
	observed := after.Runtime.Observed
	if observed == nil || observed.Digest == "" {
		return all
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
	return all
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
