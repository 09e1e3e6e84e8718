package ingest

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// A report contains the digest of the applied bundle, and its module states are valid for that bundle. Most new bundles
// change only a few modules. For all other modules, a report about an earlier bundle is also valid for the latest
// bundle. The publisher therefore records the changed modules when it publishes a bundle.

// The status lists at most maxEarlier earlier bundles. It omits a bundle if more than maxChanged modules have changed
// since that bundle.
const (
	maxEarlier = 5
	maxChanged = 50
)

// earlierBundles returns the earlier bundles that the runtime may still report as applied, each with the modules that
// later bundles have changed.
func earlierBundles(before *v1beta2.RuntimeStatus, facts Facts) []v1beta2.EarlierBundle {
	if isApplied(facts) || before == nil || before.Published == nil {
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

// findUnchanged returns the earlier bundle that the latest report contains as applied. It returns nil if the status
// does not contain that bundle, or if the runtime had enough time to apply the latest bundle.
func findUnchanged(published v1beta2.PublishedBundle, facts Facts, now time.Time) *v1beta2.EarlierBundle {
	if facts.Report == nil || facts.Report.Observed == nil || now.Sub(published.Time.Time) > facts.SilenceTimeout {
		return nil
	}
	for i := range published.Earlier {
		if published.Earlier[i].Digest == facts.Report.Observed.Digest.String() {
			return &published.Earlier[i]
		}
	}
	return nil
}

// ReportDeadline returns the time until which a report about an earlier bundle is sufficient for a healthy runtime. It
// returns zero if the runtime has already reported the latest bundle as applied.
func ReportDeadline(status v1beta2.KymaStatus, silence time.Duration) time.Time {
	if status.Runtime == nil || status.Runtime.Published == nil || len(status.Runtime.Published.Earlier) == 0 {
		return time.Time{}
	}
	return status.Runtime.Published.Time.Add(silence)
}

// isStateValid reports whether the reported state of a module is valid for the latest bundle. A report about an earlier
// bundle is sufficient if the module has not changed since that bundle.
func (f Facts) isStateValid(module string) bool {
	return isApplied(f) || f.unchangedBundle != nil && !slices.Contains(f.unchangedBundle.Changed, module)
}

func (f Facts) areAllStatesValid() bool {
	return isApplied(f) || f.unchangedBundle != nil && len(f.unchangedBundle.Changed) == 0
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
