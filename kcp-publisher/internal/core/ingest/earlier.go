package ingest

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// A report applies to the bundle whose digest it contains. Most new bundles change no module, so a report about an
// earlier bundle also applies to a module that is equal in the latest bundle. The differences between bundles are
// recorded when a bundle is published.

// A bundle with more than maxChanged changed modules is not recorded.
const (
	maxEarlier = 5
	maxChanged = 50
)

// earlierBundles returns the earlier bundles that the runtime may still report as applied.
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

// unchangedSince returns the recorded earlier bundle in the latest report. It returns nil if the runtime had enough
// time to apply the latest bundle.
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

// TakenUntil returns the time when a runtime must have reported the latest bundle to stay healthy. It returns zero if
// the runtime has reported that bundle.
func TakenUntil(status v1beta2.KymaStatus, silence time.Duration) time.Time {
	if status.Runtime == nil || status.Runtime.Published == nil || len(status.Runtime.Published.Earlier) == 0 {
		return time.Time{}
	}
	return status.Runtime.Published.Time.Add(silence)
}

// applies reports whether a module's reported state is also valid for the latest bundle.
func (f Facts) applies(module string) bool {
	return current(f) || f.unchanged != nil && !slices.Contains(f.unchanged.Changed, module)
}

func (f Facts) appliesToAll() bool {
	return current(f) || f.unchanged != nil && len(f.unchanged.Changed) == 0
}

// released reports whether the latest bundle returns the runtime to lifecycle-manager.
func (f Facts) released() bool { return f.Published != nil && phase.Released(f.Published.State) }

// running returns the reported version of a module, or empty. If the report omits modules, it returns the version in
// the previous status.
func running(m bundle.Manifest, r bundle.ReportedModule, before []v1beta2.ModuleStatus, facts Facts) string {
	switch {
	case r.Name != "":
		return r.Version
	case m.Unmanaged && facts.applies(m.Module):
		return m.Version
	case facts.Report == nil || facts.Report.OmitsModules() || facts.released():
		for i := range before {
			if before[i].Name == m.Module {
				return before[i].Version
			}
		}
	}
	return ""
}
