package ingest

import (
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// A status counts only for the bundle that it names by digest. Most bundles change no module all the same: a catalog, a
// window or a key is new, or the one before would expire. What a report about an earlier bundle says of a module is
// true of the newest one too, as long as both ask for exactly the same of that module: what runs is what the report
// proved, and nothing else is to come. So such a module stays Ready while the report is awaited; condition Accepted
// says that it is.
//
// Which bundles differ in what is noted with the newest one when it is published. Where that is not known, nothing
// carries over.

// maxEarlier and maxChanged bound what is noted: a runtime that is so far behind reports the newest bundle next, and of
// a bundle of which so much was changed nothing is noted.
const (
	maxEarlier = 5
	maxChanged = 50
)

// earlierBundles returns the bundles before the newest that the runtime may report still.
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

// unchangedSince returns the earlier bundle that the newest report is about. After the allowed silence, a runtime that
// reports and does not take the newest bundle is not healthy any more, whatever runs there.
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

// TakenUntil returns until when a runtime may take to report the newest bundle and be as healthy as it reported an
// earlier one, zero where it has done so.
func TakenUntil(status v1beta2.KymaStatus, silence time.Duration) time.Time {
	if status.Runtime == nil || status.Runtime.Published == nil || len(status.Runtime.Published.Earlier) == 0 {
		return time.Time{}
	}
	return status.Runtime.Published.Time.Add(silence)
}

// tells reports whether what the newest report says of a module is about what the newest bundle asks for.
func (f Facts) tells(module string) bool {
	return current(f) || f.unchanged != nil && !slices.Contains(f.unchanged.Changed, module)
}

// tellsAll is tells for all modules.
func (f Facts) tellsAll() bool {
	return current(f) || f.unchanged != nil && len(f.unchanged.Changed) == 0
}

// released reports whether the newest bundle gives the runtime back to lifecycle-manager.
func (f Facts) released() bool { return f.Published != nil && phase.Released(f.Published.State) }

// running returns the version of a module that runs: as the newest report says, empty where the runtime does not have
// it. What a report leaves out is as it was known.
func running(m bundle.Manifest, r bundle.ReportedModule, before []v1beta2.ModuleStatus, facts Facts) string {
	switch {
	case r.Name != "":
		return r.Version
	case m.Unmanaged && facts.tells(m.Module):
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
