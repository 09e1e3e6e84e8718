package ingest

import (
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// The status keeps the outcome of the last bundles for operators: publication, report, and changes of a module's state.
// The history causes no write of its own. It is the publisher's record; the bundles in the registry prove their
// signers.

// maxHistory and maxVersionChanges limit the history of one runtime: about 300 bytes for each bundle.
const (
	maxHistory        = 5
	maxVersionChanges = 3
)

// history returns the last bundles after a reconcile. before is the previous status, nil without one.
func history(before *v1beta2.RuntimeStatus, after v1beta2.KymaStatus, facts Facts) []v1beta2.BundleRecord {
	all, published := after.Runtime.History, after.Runtime.Published // only this function writes to after
	if published == nil {
		return all
	}
	var last *v1beta2.PublishedBundle
	if before != nil {
		last = before.Published
	}
	// A bundle from before the history existed is left out: an upgrade of the publisher would otherwise write every
	// status.
	if last == nil || last.Digest != published.Digest {
		all = slices.DeleteFunc(all, func(b v1beta2.BundleRecord) bool { return b.Digest == published.Digest })
		all = append([]v1beta2.BundleRecord{recordOf(last, published)}, all...)
		all = all[:min(len(all), maxHistory)]
	}
	noteRefusals(all, facts)
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
			b.State = worstOf(after.Modules)
		}
	}
	return all
}

// recordOf returns the record of a bundle that is newer than the last record, nil without one.
func recordOf(last, published *v1beta2.PublishedBundle) v1beta2.BundleRecord {
	b := v1beta2.BundleRecord{
		Epoch: published.Epoch, Sequence: published.Sequence, Digest: published.Digest, Published: published.Time,
		Commit: published.Commit,
	}
	b.Changes = versionChanges(versionsIn(last), published.Versions)
	if more := len(b.Changes) - maxVersionChanges; more > 0 {
		b.Changes, b.More = slices.Clone(b.Changes[:maxVersionChanges]), int32(more)
	}
	return b
}

// versionChanges returns the changes between versions, by module.
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

// noteRefusals records the refusal reason of each bundle listed in the newest report.
func noteRefusals(all []v1beta2.BundleRecord, facts Facts) {
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

// worstOf returns the worst state of modules, Ready without modules.
func worstOf(modules []v1beta2.ModuleStatus) v1beta2.State {
	worst := v1beta2.StateReady
	for i := range modules {
		if s := modules[i].State; s != v1beta2.StateUnmanaged {
			worst = worse(worst, s)
		}
	}
	return worst
}
