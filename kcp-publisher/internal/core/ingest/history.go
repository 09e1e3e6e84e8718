package ingest

import (
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// What became of the last bundles is remembered for people, in the status that is written anyway: when a bundle is
// published, when the runtime reports it, and when a module's state changes. Nothing here makes a write of its own. It
// is what the publisher said at the time; who signed which bundle, the bundles in the registry prove.

// maxHistory and maxVersionChanges bound what is remembered of one runtime: about 300 bytes for each bundle.
const (
	maxHistory        = 5
	maxVersionChanges = 3
)

// history returns the last bundles as they are known after a look; before is what was known of the runtime, nil for
// nothing.
func history(before *v1beta2.RuntimeStatus, after v1beta2.KymaStatus, facts Facts) []v1beta2.BundleRecord {
	all, published := after.Runtime.History, after.Runtime.Published // after is nobody else's
	if published == nil {
		return all
	}
	var last *v1beta2.PublishedBundle
	if before != nil {
		last = before.Published
	}
	// One that was published before there was a history stays out of it: at an update of the publisher every status would
	// be written.
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

// recordOf returns what is remembered of a bundle that is published after the last one, nil for none.
func recordOf(last, published *v1beta2.PublishedBundle) v1beta2.BundleRecord {
	b := v1beta2.BundleRecord{Epoch: published.Epoch, Sequence: published.Sequence, Digest: published.Digest, Published: published.Time, Commit: published.Commit}
	b.Changes = versionChanges(versionsIn(last), published.Versions)
	if more := len(b.Changes) - maxVersionChanges; more > 0 {
		b.Changes, b.More = slices.Clone(b.Changes[:maxVersionChanges]), int32(more)
	}
	return b
}

// versionChanges returns how versions differ, by module.
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

// worstOf returns the worst state of modules, Ready for none.
func worstOf(modules []v1beta2.ModuleStatus) v1beta2.State {
	worst := v1beta2.StateReady
	for i := range modules {
		if s := modules[i].State; s != v1beta2.StateUnmanaged {
			worst = worse(worst, s)
		}
	}
	return worst
}
