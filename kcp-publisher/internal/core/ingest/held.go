package ingest

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// HeldStatus returns a Kyma's status while a Git commit is partially applied. During this time, the publisher only
// renews bundles and reads reports. facts contains the renewed bundle and the latest report. If the bundle cannot be
// read, modules can only get a worse state. commit describes the Git commit for the condition Publishing. If it is
// empty, the condition does not change.
func HeldStatus(before v1beta2.KymaStatus, facts Facts, commit string, now time.Time) v1beta2.KymaStatus {
	after := *before.DeepCopy()
	if r := after.Runtime; r != nil && r.Published != nil {
		if facts.Published != nil {
			recordRenewal(r, before.Runtime, facts)
			recordEvidence(r, before, facts, now)
		}
		if facts.Report != nil {
			updateModules(&after, before, facts, now)
		}
	}
	if commit != "" {
		set := conditionSetter(&after.Conditions, facts.Generation, now)
		message := commit + ": bundles are renewed without changes"
		if facts.RenewError != nil {
			message = truncate(commit + ": the bundle is not renewed: " + facts.RenewError.Error())
		}
		set(v1beta2.ConditionPublishing, v1beta2.ReasonCommitHeld, message, false)
	}
	return after
}

// recordEvidence adds the reported results of the versions that rollouts selected, as NextStatus does. Otherwise, a
// rollout would count the runtime as failed after the deadline. facts.Published must be the bundle in r.
func recordEvidence(r *v1beta2.RuntimeStatus, before v1beta2.KymaStatus, facts Facts, now time.Time) {
	facts.SelectedVersions = r.Published.Given
	published := *r.Published
	published.Given = collectEvidence(before, facts, now)
	r.Published = &published
}

func recordRenewal(r, before *v1beta2.RuntimeStatus, facts Facts) {
	if r.Published.Digest == facts.Published.Digest.String() {
		return
	}
	last, next := *r.Published, facts.Published.StatusEntry()
	next.Given, next.Certificate = last.Given, lastCertificate(before, next)
	r.Published = &next
	r.History = nextHistory(before, &next, Facts{Published: facts.Published})
}

// updateModules updates the modules whose state changes because of the report, and the fields that depend on these
// states.
func updateModules(after *v1beta2.KymaStatus, before v1beta2.KymaStatus, facts Facts, now time.Time) {
	why := collectReasons(before)
	modules, reasons, changed := withWorseReports(before.Modules, why.Modules, facts.Report)
	if facts.Published != nil {
		modules, reasons, changed = reportedModules(before, after.Runtime, facts, now)
	}
	if !changed {
		return
	}
	after.Modules, why.Modules = modules, reasons
	after.Runtime.Reasons = nilIfEmpty(why)
	set := conditionSetter(&after.Conditions, facts.Generation, now)
	moduleStates(*after, set)
	ready := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReady)
	publishFailed := ready != nil && ready.Reason == v1beta2.ReasonPublishFailed
	state := heldState(*after, publishFailed, facts.IsDeleting)
	after.State, after.ReadyModules = state, v1beta2.CountReady(after.Modules)
	if publishFailed {
		return
	}
	message, reason := allReady, v1beta2.ReasonReady
	if state != v1beta2.StateReady {
		message, reason = readyMessage(*after), v1beta2.ReasonNotReady
	}
	set(v1beta2.ConditionReady, reason, message, state == v1beta2.StateReady)
	after.UpdateLastOperation(before, message, now)
}

// heldState returns the state of a Kyma while a Git commit is partially applied. Problems that do not concern modules
// are taken from the conditions, because the publisher does not check for them during this time.
func heldState(status v1beta2.KymaStatus, publishFailed, deleting bool) v1beta2.State {
	if deleting {
		return v1beta2.StateDeleting
	}
	state := worstState(status.Modules)
	if state == v1beta2.StateDeleting {
		state = v1beta2.StateProcessing
	}
	if publishFailed {
		return worseState(state, v1beta2.StateError)
	}
	for _, kind := range decidingConditions {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if kind != v1beta2.ConditionModules && c != nil && c.Status != metav1.ConditionTrue {
			return worseState(state, v1beta2.StateWarning)
		}
	}
	return state
}

func setPublishing(after v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	if facts.Published != nil && meta.FindStatusCondition(after.Conditions, v1beta2.ConditionPublishing) != nil {
		set(v1beta2.ConditionPublishing, v1beta2.ReasonPublishing, "bundles are published", true)
	}
}

// reportedModules returns the modules of the previous status with the states in the report, and the reasons for their
// problems. runtime contains the history and the status entry of the bundle in facts. If the report is about a
// different module version, the module can only get a worse state. If the last attempt to resolve a module failed, the
// module keeps its state. changed is true if a module differs from the previous status.
func reportedModules(
	before v1beta2.KymaStatus, runtime *v1beta2.RuntimeStatus, facts Facts, now time.Time,
) (modules []v1beta2.ModuleStatus, _ []v1beta2.ModuleReasons, changed bool) {
	facts.Templates = map[string]v1beta2.PartialMeta{}
	for _, m := range before.Modules {
		if m.Template != nil {
			facts.Templates[m.Template.PartialMeta.Name] = m.Template.PartialMeta
		}
	}
	facts.Problems, facts.difference = nil, findDifference(runtime, facts, now)
	reasons := reasonsByModule{}
	for _, r := range collectReasons(before).Modules {
		reasons[r.Name] = r
	}
	reported, reportedReasons := moduleStatuses(before, nil, facts)
	updated := map[string]bool{}
	modules = before.DeepCopy().Modules
	for _, next := range reported {
		i := slices.IndexFunc(modules, func(m v1beta2.ModuleStatus) bool { return m.Name == next.Name })
		switch isValid := facts.isStateValid(next.Name); {
		case i < 0, reasons[next.Name].Problem != "",
			isValid && modules[i].State == next.State && modules[i].Version == next.Version,
			!isValid && worseState(next.State, modules[i].State) == modules[i].State:
			continue
		}
		modules[i], updated[next.Name] = next, true
		delete(reasons, next.Name)
	}
	for _, r := range reportedReasons {
		if updated[r.Name] {
			reasons[r.Name] = r
		}
	}
	return modules, reasons.sorted(), len(updated) > 0
}

// modulesWithoutBundle returns the modules in after, with the states from a report that arrived while the publisher
// could not publish a bundle.
func modulesWithoutBundle(
	before, after v1beta2.KymaStatus, reasons []v1beta2.ModuleReasons, facts Facts, now time.Time,
) (modules []v1beta2.ModuleStatus, why []v1beta2.ModuleReasons) {
	if facts.reportsKept(after.Runtime) {
		facts.Published = facts.Kept
		modules, why, _ = reportedModules(before, after.Runtime, facts, now)
	} else {
		modules, why, _ = withWorseReports(after.Modules, reasons, facts.Report)
	}
	return modules, why
}

// withWorseReports returns the modules, and replaces the recorded state of each module that has a worse state in the
// report. It is used while the publisher cannot read the runtime's bundle, because a better state could belong to a
// different version than the one in the bundle. changed is true if a state differs.
func withWorseReports(
	modules []v1beta2.ModuleStatus, reasons []v1beta2.ModuleReasons, report *bundle.AcceptedReport,
) (_ []v1beta2.ModuleStatus, _ []v1beta2.ModuleReasons, changed bool) {
	if report == nil {
		return modules, reasons, false
	}
	why := reasonsByModule{}
	for _, r := range reasons {
		why[r.Name] = r
	}
	all := slices.Clone(modules)
	for i := range all {
		m := &all[i]
		at := slices.IndexFunc(report.Modules, func(r bundle.ReportedModule) bool { return r.Name == m.Name })
		if at < 0 || m.State == v1beta2.StateUnmanaged || why[m.Name].Problem != "" {
			continue
		}
		r := report.Modules[at]
		if r.State == m.State || worseState(r.State, m.State) != r.State {
			continue
		}
		m.State, m.Message, changed = r.State, r.Message, true
		delete(why, m.Name)
		why.addRuntime(m.Name, runtimeReason(*m, r))
	}
	return all, why.sorted(), changed
}

// reportsKept returns true if the publisher could not publish a new bundle, so the runtime keeps its bundle, and the
// report's module states are about this bundle.
func (f Facts) reportsKept(r *v1beta2.RuntimeStatus) bool {
	return f.Published == nil && len(f.Problems) == 0 && f.Report != nil && f.ReportRefused == nil && f.Kept != nil &&
		r.Published != nil && r.Published.Digest == f.Kept.Digest.String()
}
