package ingest

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// collectEvidence returns the reported state of each module whose version a rollout selected. It ignores a report about
// an earlier bundle, request or version.
func collectEvidence(before v1beta2.KymaStatus, facts Facts, now time.Time) map[string]v1beta2.GivenVersion {
	if len(facts.SelectedVersions) == 0 {
		return nil
	}
	byModule := map[string]bundle.ReportedModule{}
	if isCurrentReport(facts) {
		for _, m := range facts.Report.Modules {
			byModule[m.Name] = m
		}
	}
	checks := map[string][]fleet.Check{}
	for _, m := range facts.Published.State.Manifests {
		checks[m.Module] = m.Checks
	}
	proven := make(map[string]v1beta2.GivenVersion, len(facts.SelectedVersions))
	versions := resolve.ModuleVersions(facts.Published.State)
	for module, given := range facts.SelectedVersions {
		given.State = ""
		if _, installed := versions[module]; !installed && given.RemovedVersion != "" {
			proven[module] = removalEvidence(module, given, facts)
			continue
		}
		if m, listed := byModule[module]; listed && !m.Maintenance && isStartDelayed(before, module, given, now) {
			given.StartedAt = new(metav1.NewTime(now.UTC().Truncate(time.Second)))
		}
		// If the runtime failed to apply a version, Wanted is that version, and Version is an older one.
		if m := byModule[module]; cmp.Or(m.Wanted, m.Version) == versions[module] {
			if given.State = m.State; m.Wanted != "" && m.State == v1beta2.StateReady {
				given.State = v1beta2.StateProcessing // the older version is ready
			}
			given.Ready = given.Ready || m.State == v1beta2.StateReady && m.Wanted == ""
			if m.Wanted == "" {
				ended := facts.EndedWaves[module] && !given.WaveEnded
				given.Checks = checkOutcomes(given.Checks, checks[module], m.Checks, ended)
				given.WaveEnded = given.WaveEnded || ended && len(given.Checks) > 0
			}
		}
		proven[module] = given
	}
	return proven
}

// removalEvidence returns the reported result of a removal. A module is removed if a complete report about the latest
// bundle does not contain it. Until then, the result contains the module's state, such as Deleting.
func removalEvidence(module string, given v1beta2.GivenVersion, facts Facts) v1beta2.GivenVersion {
	if !isCurrentReport(facts) || facts.Report.OmitsModules() {
		return given
	}
	at := slices.IndexFunc(facts.Report.Modules, func(m bundle.ReportedModule) bool { return m.Name == module })
	if at >= 0 {
		given.State = facts.Report.Modules[at].State
		return given
	}
	given.State, given.Ready = v1beta2.StateReady, true
	return given
}

// minWindowDistance is the shortest time between the starts of two maintenance windows that both delay the deadline of
// a rollout's wave. Without it, a runtime could repeatedly report that it waits for a window, and never miss the
// deadline.
const minWindowDistance = 2 * time.Hour

// isStartDelayed reports whether the runtime was silent or waited for its maintenance window, according to the previous
// status. The deadline of the rollout's wave then starts later.
func isStartDelayed(before v1beta2.KymaStatus, module string, given v1beta2.GivenVersion, now time.Time) bool {
	if given.Ready {
		return false
	}
	waited := slices.ContainsFunc(before.Modules, func(m v1beta2.ModuleStatus) bool {
		return m.Name == module && m.Maintenance
	})
	return waited && (given.StartedAt == nil || now.Sub(given.StartedAt.Time) >= minWindowDistance) ||
		wasSilent(before.Conditions)
}

// wasSilent reports whether the runtime was silent. Refused reports and a wrong clock are not silence. Otherwise, a
// runtime could use them to delay its deadline forever.
func wasSilent(conditions []metav1.Condition) bool {
	reporting := meta.FindStatusCondition(conditions, v1beta2.ConditionReporting)
	return plan.IsSilent(conditions) ||
		reporting != nil && reporting.Status == metav1.ConditionFalse && reporting.Reason == v1beta2.ReasonNeverReported
}

// checkOutcomes returns the results of a module's checks. An earlier result only counts if the check's definition has
// not changed since then.
//
// While a check's result stays the same, the outcome keeps the first measured value and message, so that new
// measurements do not cause status updates. At the end of the wave, the newest values replace them once. A Failed check
// keeps the value that caused the failure. An Inconclusive check with a problem always gets the newest values, because
// the rollout's message describes the problem.
func checkOutcomes(
	before []v1beta2.CheckOutcome, defined []fleet.Check, reported []bundle.ReportedCheck, isWaveEnd bool,
) []v1beta2.CheckOutcome {
	var all []v1beta2.CheckOutcome
	for _, c := range defined {
		definition := checks.DefinitionID(c)
		was := slices.IndexFunc(before, func(o v1beta2.CheckOutcome) bool {
			return o.Name == c.Name && o.Definition == definition
		})
		is := slices.IndexFunc(reported, func(o bundle.ReportedCheck) bool { return o.Name == c.Name })
		switch {
		case is >= 0 && (was < 0 || before[was].Result != reported[is].Result || reported[is].HasProblem()),
			is >= 0 && isWaveEnd && reported[is].Result != v1beta2.CheckFailed:
			outcome := reported[is].CheckOutcome
			outcome.Definition = definition
			all = append(all, outcome)
		case was >= 0:
			all = append(all, before[was])
		}
	}
	return all
}

// isCurrentReport reports whether the latest report is about the latest bundle, and contains the same module request
// that this bundle was built from.
func isCurrentReport(facts Facts) bool {
	if facts.ReportRefused != nil || !isApplied(facts) || facts.Report.Kyma == nil {
		return false
	}
	kyma, answered := facts.Report.Kyma, facts.Published.Predicate
	if facts.Report.OmitsRequest() {
		return kyma.Generation == answered.KymaGeneration
	}
	return answered.IsBuiltFor(kyma.Spec, kyma.Generation)
}
