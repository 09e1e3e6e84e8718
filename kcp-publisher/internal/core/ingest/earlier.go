package ingest

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// A status counts only for the bundle that it names by digest. Most bundles change no module: they have a new catalog,
// window or key, or renew an expiring bundle. A report about an earlier bundle is also true for a module of the newest
// bundle if both request exactly the same for that module. Such a module stays Ready while the report is pending, and
// the condition Accepted shows the pending report. The differences between bundles are recorded when the newest one is
// published. Without that record, nothing carries over.

// maxEarlier and maxChanged limit the record. A runtime that is further behind reports the newest bundle next, and a
// bundle with more changes gets no record.
const (
	maxEarlier = 5
	maxChanged = 50
)

// earlierBundles returns the bundles before the newest that the runtime may still report.
func earlierBundles(before *v1beta2.RuntimeStatus, facts Facts) []v1beta2.EarlierBundle {
	if current(facts) || before == nil || before.Published == nil {
		return nil
	}
	last, newest := before.Published, facts.Published
	if last.Digest == newest.Digest.String() {
		return last.Earlier
	}
	previous, changes := newest.Predicate.Previous, newest.Changes
	if changes == nil || previous == nil || previous.Digest.String() != last.Digest {
		return nil
	}
	var all []v1beta2.EarlierBundle
	for _, e := range append([]v1beta2.EarlierBundle{{Digest: last.Digest}}, last.Earlier...) {
		changed := slices.Concat(e.Changed, changes.Modules)
		slices.Sort(changed)
		if changed = slices.Compact(changed); len(changed) <= maxChanged && len(all) < maxEarlier {
			all = append(all, v1beta2.EarlierBundle{Digest: e.Digest, Changed: changed})
		}
	}
	return all
}

// unchangedSince returns the earlier bundle of the newest report. After the allowed silence, a runtime that reports and
// does not apply the newest bundle is not healthy, whatever it runs.
func unchangedSince(published v1beta2.PublishedBundle, facts Facts, now time.Time) *v1beta2.EarlierBundle {
	if facts.Report == nil || facts.Report.Observed == nil || now.Sub(published.Time.Time) > facts.Silence {
		return nil
	}
	for i := range published.Earlier {
		if published.Earlier[i].Digest == facts.Report.Observed.Digest.String() {
			return &published.Earlier[i]
		}
	}
	return nil
}

// TakenUntil returns the time until which a runtime counts as healthy by its report about an earlier bundle. It returns
// zero if the runtime has reported the newest bundle.
func TakenUntil(status v1beta2.KymaStatus, silence time.Duration) time.Time {
	if status.Runtime == nil || status.Runtime.Published == nil || len(status.Runtime.Published.Earlier) == 0 {
		return time.Time{}
	}
	return status.Runtime.Published.Time.Add(silence)
}

// applies reports whether the newest report about a module applies to the newest bundle.
func (f Facts) applies(module string) bool {
	return current(f) || f.unchanged != nil && !slices.Contains(f.unchanged.Changed, module)
}

// appliesToAll reports whether applies is true for every module.
func (f Facts) appliesToAll() bool {
	return current(f) || f.unchanged != nil && len(f.unchanged.Changed) == 0
}

// released reports whether the newest bundle gives the runtime back to lifecycle-manager.
func (f Facts) released() bool { return f.Published != nil && phase.Released(f.Published.State) }

// running returns the running version of a module from the newest report, empty if the runtime does not have the
// module. A module that a report leaves out keeps its known version.
func running(m bundle.Manifest, r bundle.ReportedModule, before []v1beta2.ModuleStatus, facts Facts) string {
	switch {
	case r.Name != "":
		return r.Version
	case m.Unmanaged && facts.applies(m.Module):
		return m.Version
	case facts.Report == nil || facts.Report.LeavesModulesOut() || facts.released():
		for i := range before {
			if before[i].Name == m.Module {
				return before[i].Version
			}
		}
	}
	return ""
}
