// Package ingest computes the status of a Kyma from the previous status, the runtime's report and the published bundle.
// It does not perform I/O. The result does not share memory with the inputs, because a client overwrites it with the
// API server's response.
package ingest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// Facts contains the inputs of NextStatus for one runtime, except the previous status.
type Facts struct {
	Generation int64
	// Published is the latest bundle, or nil. PublishError is set if a newer bundle could not be published.
	Published    *plan.PublishedBundle
	PublishError error
	// Kept is the bundle that the runtime keeps while PublishError is set, or nil if that bundle is unknown.
	Kept *plan.PublishedBundle
	// Problems lists the reasons why requested modules cannot be resolved, and remarks about modules.
	Problems []bundle.Problem
	// Templates maps the names of the latest bundle's ModuleTemplates to their metadata.
	Templates map[string]v1beta2.PartialMeta
	// SelectedVersions contains the modules in the latest bundle whose version a rollout selected.
	SelectedVersions map[string]v1beta2.GivenVersion
	// EndedWaves is true for each module in SelectedVersions if the rollout has ended the runtime's wave.
	EndedWaves map[string]bool
	// Report is the latest accepted report, or nil. ReportRefused is set if the latest report was refused.
	Report        *bundle.AcceptedReport
	ReportRefused *refusal.Error
	// ReportUnread is the error if the publisher could not read the report. The status shows it only after the allowed
	// time without a report has passed.
	ReportUnread error
	// OmittedFeatures lists the features that the latest bundle omits because the agent does not support them, sorted.
	OmittedFeatures []bundle.Feature
	// SecretsError is set if the publisher could not encrypt the Secrets for the runtime.
	SecretsError error
	// RenewError is the reason why the bundle was not renewed while a Git commit is partially applied, or nil.
	RenewError error
	// SealedRemovals lists the Secrets that the latest bundle removes, as NAMESPACE/NAME.
	SealedRemovals []string
	// SilenceTimeout is the allowed time without a report.
	SilenceTimeout time.Duration
	// UnrecordedUntil is the time until which another publisher may have received reports that the status does not
	// show. It is zero if no other publisher could have received one.
	UnrecordedUntil time.Time
	// IsCarried is true if an operator carries the runtime's reports to the registry by hand.
	IsCarried  bool
	IsDeleting bool
	// Removals is the decision about the module removals in the latest bundle.
	Removals plan.RemovalDecision
	// Finished is true if the takeover from lifecycle-manager is complete.
	Finished bool
	// Deviation describes how the registry differs from the published bundle, or is nil. IsConsistent is true if the
	// registry contains the published bundle.
	Deviation    *plan.Deviation
	IsConsistent bool

	// difference is the difference between the latest bundle and the earlier bundle that the report lists as applied.
	// It is nil if the report does not contain an earlier bundle, or if the difference is unknown.
	difference *v1beta2.BundleDifference
}

const noBundle = "no bundle is published yet"

const allReady = "all modules are ready"

// NextStatus returns a Kyma's next status. before is the previous status.
func NextStatus(before v1beta2.KymaStatus, facts Facts, now time.Time) v1beta2.KymaStatus {
	after := *before.DeepCopy()
	if after.Runtime == nil {
		after.Runtime = &v1beta2.RuntimeStatus{}
	}
	if p := facts.Published; p != nil {
		published := p.StatusEntry()
		published.Certificate = lastCertificate(before.Runtime, published)
		published.Given = collectEvidence(before, facts, now)
		after.Runtime.Published = &published
		after.Runtime.History = nextHistory(before.Runtime, &published, facts)
		facts.difference = findDifference(after.Runtime, facts, now)
		if t := after.Runtime.Takeover; t != nil {
			t.Published = string(p.State.Takeover)
		}
		after.Runtime.Removals = plan.RemovalStatuses(removalDecisions(before.Runtime), facts.Removals, p, now)
		after.ActiveChannel = p.State.Kyma.Spec.Channel
	}
	why := collectReasons(before)
	after.Modules, why.Modules = moduleStatuses(before, why.Modules, facts)
	if facts.Published == nil {
		after.Modules, why.Modules = modulesWithoutBundle(before, after, why.Modules, facts, now)
	}
	why.Publish = publishReason(facts.PublishError)
	if facts.Finished {
		phase.ClearTakeover(&after)
	}

	set := conditionSetter(&after.Conditions, facts.Generation, now)
	silent := setReporting(after, facts, why, now, set)
	setAccepted(after.Runtime, facts, why, set)
	setRegistry(after, facts, set)
	setAgent(after, facts, set)
	setFeatures(after, facts, set)
	setSecrets(after.Conditions, facts, why, set)
	setSynced(after, facts, set)
	setRemovals(after, facts, set)
	setPublishing(after, facts, set)
	setWatchers(&after, facts, set)
	after.State = summarizeState(after.Modules, facts, silent)
	after.ReadyModules, after.ObservedGeneration = v1beta2.CountReady(after.Modules), facts.Generation
	moduleStates(after, set)
	setModuleCatalog(facts, set)
	operation := allReady
	if after.State != v1beta2.StateReady {
		operation = readyMessage(after)
	}
	if facts.PublishError != nil {
		operation = truncate(facts.PublishError.Error())
		set(v1beta2.ConditionReady, v1beta2.ReasonPublishFailed, operation, false)
	} else {
		set(v1beta2.ConditionReady,
			map[bool]string{true: v1beta2.ReasonReady,
				false: v1beta2.ReasonNotReady}[after.State == v1beta2.StateReady],
			operation, after.State == v1beta2.StateReady)
	}
	after.UpdateLastOperation(before, operation, now)
	recordOutcomes(after.Runtime.History, after, facts)
	after.Runtime.Reasons = nilIfEmpty(why)
	return after
}

// moduleStates sets the condition Modules according to the states of the modules.
func moduleStates(after v1beta2.KymaStatus, set func(string, string, string, bool)) {
	notReady := slices.IndexFunc(after.Modules, func(m v1beta2.ModuleStatus) bool {
		return m.State != v1beta2.StateReady && m.State != v1beta2.StateUnmanaged
	})
	if after.Runtime.Published == nil {
		set(v1beta2.ConditionModules, v1beta2.ReasonNotReady, noBundle, false)
	} else if notReady < 0 {
		set(v1beta2.ConditionModules, v1beta2.ReasonReady, allReady, true)
	} else {
		m := after.Modules[notReady]
		set(v1beta2.ConditionModules, v1beta2.ReasonNotReady,
			fmt.Sprintf("module %s is %s: %s", m.Name, m.State, cmp.Or(m.Message, "see the runtime's Manifest")), false)
	}
}

// conditionSetter returns a function that sets a condition. The function changes the condition's transition time only
// if the condition's status changes.
func conditionSetter(
	conditions *[]metav1.Condition, generation int64, now time.Time,
) func(kind, reason, message string, ok bool) {
	return func(kind, reason, message string, ok bool) {
		status := metav1.ConditionFalse
		if ok {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: truncate(message), ObservedGeneration: generation,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
}

func readyMessage(status v1beta2.KymaStatus) string {
	if c := decidingCondition(status.Conditions); c != nil {
		return c.Message
	}
	return allReady
}

// decidingConditions lists the conditions that determine the message of the condition Ready, most important first.
var decidingConditions = []string{
	v1beta2.ConditionReporting, v1beta2.ConditionAccepted, v1beta2.ConditionModules, v1beta2.ConditionAgent,
	v1beta2.ConditionFeatures, v1beta2.ConditionSynced, v1beta2.ConditionSecrets, v1beta2.ConditionRemovals,
}

func decidingCondition(conditions []metav1.Condition) *metav1.Condition {
	for _, kind := range decidingConditions {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			return c
		}
	}
	return nil
}

// isApplied reports whether the latest report lists the latest bundle as applied.
func isApplied(facts Facts) bool {
	return facts.Published != nil && facts.Report != nil && facts.Report.HasApplied(facts.Published.Digest)
}

func setAccepted(
	r *v1beta2.RuntimeStatus, facts Facts, why *v1beta2.RuntimeReasons, set func(string, string, string, bool),
) {
	if facts.Published == nil && r.Published != nil && !facts.refusesBundles() {
		// This process has not read the latest bundle in the status yet, so it cannot compare the report with the
		// bundle.
		return
	}
	why.Bundle = ""
	switch {
	case facts.refusesBundles():
		last := facts.Report.Refused[len(facts.Report.Refused)-1]
		why.Bundle = v1beta2.Reason(refusal.Known(last.Reason))
		set(v1beta2.ConditionAccepted, v1beta2.ReasonBundleRefused,
			fmt.Sprintf("the runtime refused bundle %s (%s): %s", last.Digest, last.Reason, last.Detail), false)
	case facts.Published == nil:
		set(v1beta2.ConditionAccepted, v1beta2.ReasonPending, noBundle, false)
	case facts.IsCarried && !r.HasApplied(facts.Published.Digest.String()):
		set(v1beta2.ConditionAccepted, v1beta2.ReasonCarried,
			fmt.Sprintf("bundle %d must be carried to the runtime, or the runtime's report to the control plane",
				facts.Published.Predicate.Sequence), false)
	case !r.HasApplied(facts.Published.Digest.String()) && reportedTrouble(facts) != nil &&
		reportedTrouble(facts).Reason == v1beta2.ReasonStorageRefused:
		set(v1beta2.ConditionAccepted, v1beta2.ReasonStorageRefused, reportedTrouble(facts).Message, false)
	case !r.HasApplied(facts.Published.Digest.String()):
		set(v1beta2.ConditionAccepted, v1beta2.ReasonPending,
			fmt.Sprintf("waiting for the runtime to report bundle %d", facts.Published.Predicate.Sequence), false)
	case facts.Report != nil && facts.Report.Observed != nil && facts.Report.Observed.Expired:
		set(v1beta2.ConditionAccepted, string(refusal.Expired), "the bundle in use has expired", false)
	default:
		set(v1beta2.ConditionAccepted, v1beta2.ReasonAccepted, "the runtime has applied the latest bundle", true)
	}
}

func (f Facts) refusesBundles() bool { return f.Report != nil && len(f.Report.Refused) > 0 }

// setRegistry sets condition Registry to False if the registry does not contain the published bundle. The condition is
// absent until this problem first occurs.
func setRegistry(after v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	switch {
	case facts.Deviation != nil:
		set(v1beta2.ConditionRegistry, facts.Deviation.Reason, facts.Deviation.Message, false)
	case facts.IsConsistent && meta.FindStatusCondition(after.Conditions, v1beta2.ConditionRegistry) != nil:
		set(v1beta2.ConditionRegistry, v1beta2.ReasonConsistent, "the registry has the published bundle", true)
	}
}

// setAgent sets condition Agent to False if the agent could not upgrade its own image. The condition is absent until
// this problem first occurs.
func setAgent(after v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	switch {
	case facts.Report != nil && facts.Report.AgentProblem != "":
		set(v1beta2.ConditionAgent, v1beta2.ReasonRolledBack, facts.Report.AgentProblem, false)
	case facts.Report != nil && meta.FindStatusCondition(after.Conditions, v1beta2.ConditionAgent) != nil:
		set(v1beta2.ConditionAgent, v1beta2.ReasonUpgraded, "the agent runs the image of its bundle", true)
	}
}

// setFeatures sets condition Features to False if the bundle omits features that the agent does not support. The
// condition is absent until this problem first occurs.
func setFeatures(after v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	switch {
	case len(facts.OmittedFeatures) > 0:
		set(v1beta2.ConditionFeatures, v1beta2.ReasonAgentOutdated, plan.AgentOutdatedMessage(facts.OmittedFeatures), false)
	case facts.Published != nil && meta.FindStatusCondition(after.Conditions, v1beta2.ConditionFeatures) != nil:
		set(v1beta2.ConditionFeatures, v1beta2.ReasonAgentSupported, "the agent supports all features of its bundle", true)
	}
}

// moduleStatuses returns the status of each published, requested or installed module, sorted by name. It also returns
// the reasons for their problems.
func moduleStatuses(
	before v1beta2.KymaStatus, reasons []v1beta2.ModuleReasons, facts Facts,
) ([]v1beta2.ModuleStatus, []v1beta2.ModuleReasons) {
	found, why := map[string]v1beta2.ModuleStatus{}, reasonsByModule{}
	reported := map[string]bundle.ReportedModule{}
	if facts.Report != nil {
		for _, m := range facts.Report.Modules {
			reported[m.Name] = m
		}
	}
	if facts.Published != nil {
		for _, m := range facts.Published.State.Manifests {
			if m.Labels[v1beta2.LabelMandatoryModule] != v1beta2.True {
				found[m.Module] = moduleStatus(m, reported[m.Module], before, facts)
				why.addRuntime(m.Module, runtimeReason(found[m.Module], reported[m.Module]))
			}
		}
		for _, name := range facts.Published.Predicate.Removals {
			if r, ok := reported[name]; ok {
				found[name] = removalStatus(r, facts)
				why.addRuntime(name, runtimeReason(found[name], r))
			}
		}
	}
	for _, problem := range facts.Problems {
		m := found[problem.Module]
		message := problem.Message
		if m.Message != "" && worseState(m.State, problem.State) == m.State {
			message = m.Message + "; " + message // the message for the worse state comes first
		} else if m.Message != "" && facts.Published != nil &&
			slices.Contains(facts.Published.Predicate.Removals, problem.Module) {
			message += "; " + m.Message // m.Message lists the objects that block the removal
		}
		m.Name, m.Message, m.State = problem.Module, message, worseState(m.State, problem.State)
		m.Channel = cmp.Or(m.Channel, problem.Channel)
		found[problem.Module] = m
		why.addProblem(problem)
	}
	if facts.Published == nil && len(found) == 0 {
		return before.Modules, reasons
	}
	all := make([]v1beta2.ModuleStatus, 0, len(found))
	for _, m := range found {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b v1beta2.ModuleStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all, why.sorted()
}

func removalStatus(r bundle.ReportedModule, facts Facts) v1beta2.ModuleStatus {
	status := v1beta2.ModuleStatus{
		Name: r.Name, Channel: r.Channel, Version: r.Version, State: v1beta2.StateDeleting,
		Manifest: r.Manifest.DeepCopy(), Resource: r.Resource.DeepCopy(),
		Message: fmt.Sprintf("waiting for the runtime to report bundle %d", facts.Published.Predicate.Sequence),
	}
	if facts.isStateValid(r.Name) {
		status.State, status.Message = cmp.Or(deletionState(r.State), v1beta2.StateDeleting), r.Message
	}
	return status
}

func deletionState(state v1beta2.State) v1beta2.State {
	if state == v1beta2.StateWarning || state == v1beta2.StateError || state == v1beta2.StateDeleting {
		return state
	}
	return ""
}

// moduleStatus returns the status of a published module. Its version is the running version in the latest report.
func moduleStatus(
	m bundle.Manifest, r bundle.ReportedModule, before v1beta2.KymaStatus, facts Facts,
) v1beta2.ModuleStatus {
	status := v1beta2.ModuleStatus{
		Name: m.Module, FQDN: m.Component, OcmComponentName: m.Component, Channel: m.Channel,
		Version: runningVersion(m, r, before.Modules, facts),
		State:   v1beta2.StateProcessing, Manifest: r.Manifest.DeepCopy(), Resource: r.Resource.DeepCopy(),
	}
	if m.Template != "" {
		status.Template = &v1beta2.TrackingObject{
			TypeMeta:    metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "ModuleTemplate"},
			PartialMeta: v1beta2.PartialMeta{Name: m.Template},
		}
		if known, is := facts.Templates[m.Template]; is {
			status.Template.PartialMeta = known
		}
	}
	switch {
	case facts.isReleased() && isApplied(facts):
		status.State, status.Message = v1beta2.StateUnmanaged, "the runtime gave the module back to lifecycle-manager"
	case !facts.isStateValid(m.Module) && !isStillWaiting(m, r, before):
		status.Message = fmt.Sprintf("waiting for the runtime to report bundle %d", facts.Published.Predicate.Sequence)
	case m.Unmanaged:
		// As in lifecycle-manager, an unmanaged module's status has no Manifest, resource or template.
		status.State, status.Manifest, status.Resource, status.Template = v1beta2.StateUnmanaged, nil, nil, nil
	case r.Maintenance && r.Version != m.Version:
		// As in lifecycle-manager, a module that waits for its maintenance window keeps its state.
		status.Channel, status.Template = r.Channel, nil
		status.State, status.Message, status.Maintenance = r.State, r.Message, true
	case r.Name == "" && facts.Report.OmitsModules():
		status.Message = "the runtime's report omits the module because not all modules fit"
	case r.Name == "":
		status.Message = "the runtime does not have the module yet"
	case r.Version != m.Version:
		status.State = cmp.Or(troubleState(r.State), v1beta2.StateProcessing)
		status.Message = cmp.Or(r.Message,
			fmt.Sprintf("version %s is installed, waiting for version %s", r.Version, m.Version))
	default:
		status.State, status.Message = r.State, r.Message
	}
	return status
}

// isStillWaiting reports whether a module waited for its maintenance window before, and the latest bundle contains the
// same version. Until the next report, the module then still waits, even if the bundle changed other settings of the
// module. Otherwise, a rollout would count the runtime as failed.
func isStillWaiting(m bundle.Manifest, r bundle.ReportedModule, before v1beta2.KymaStatus) bool {
	if before.Runtime == nil || before.Runtime.Published == nil ||
		before.Runtime.Published.Versions[m.Module] != m.Version || !r.Maintenance || r.Version == m.Version {
		return false
	}
	return slices.ContainsFunc(before.Modules, func(known v1beta2.ModuleStatus) bool {
		return known.Name == m.Module && known.Maintenance
	})
}

func troubleState(state v1beta2.State) v1beta2.State {
	if state == v1beta2.StateWarning || state == v1beta2.StateError {
		return state
	}
	return ""
}

// statePrecedence lists the states from worst to best, in lifecycle-manager's order.
var statePrecedence = []v1beta2.State{
	v1beta2.StateError, v1beta2.StateWarning, v1beta2.StateDeleting, v1beta2.StateProcessing, v1beta2.StateReady,
}

func worseState(a, b v1beta2.State) v1beta2.State {
	for _, state := range statePrecedence {
		if a == state || b == state {
			return state
		}
	}
	return cmp.Or(a, b)
}

func summarizeState(modules []v1beta2.ModuleStatus, facts Facts, silent bool) v1beta2.State {
	if facts.IsDeleting {
		return v1beta2.StateDeleting
	}
	state := v1beta2.StateReady
	for _, m := range modules {
		if m.State != v1beta2.StateUnmanaged {
			state = worseState(state, m.State)
		}
	}
	if state == v1beta2.StateDeleting {
		state = v1beta2.StateProcessing
	}
	switch {
	case facts.PublishError != nil:
		return worseState(state, v1beta2.StateError)
	case silent && facts.Report == nil:
		return worseState(state, v1beta2.StateProcessing)
	case silent:
		return worseState(state, v1beta2.StateWarning)
	case facts.refusesBundles():
		// A runtime refuses a bundle that was tampered with or is incompatible, so the state is at least Warning.
		return worseState(state, v1beta2.StateWarning)
	case reportedTrouble(facts) != nil:
		return worseState(state, v1beta2.StateWarning)
	case len(facts.Removals.HeldModules()) > 0:
		return worseState(state, v1beta2.StateWarning)
	case !facts.areAllStatesValid():
		return worseState(state, v1beta2.StateProcessing)
	case facts.Report.Observed.Expired, facts.Report.AgentProblem != "", len(facts.OmittedFeatures) > 0,
		facts.SecretsError != nil, facts.Report.OmitsRequest(),
		facts.Report.Secrets != nil && facts.Report.Secrets.Trouble != "":
		return worseState(state, v1beta2.StateWarning)
	}
	return state
}
