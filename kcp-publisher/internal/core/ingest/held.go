package ingest

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// HeldStatus returns the status of a Kyma while a Git commit is partially applied. During this time, the publisher only
// renews bundles and reads reports. facts contains the renewed bundle and the latest report. Without a renewed bundle,
// the states of modules do not change. commit describes the Git commit. If commit is empty, the condition Publishing
// does not change.
func HeldStatus(before v1beta2.KymaStatus, facts Facts, commit string, now time.Time) v1beta2.KymaStatus {
	after := *before.DeepCopy()
	if r := after.Runtime; r != nil && facts.Published != nil && r.Published != nil {
		recordRenewal(r, before.Runtime, facts)
		if facts.Report != nil {
			updateModules(&after, before, facts, now)
		}
	}
	if commit != "" {
		set := conditionSetter(&after.Conditions, facts.Generation, now)
		set(v1beta2.ConditionPublishing, v1beta2.ReasonCommitHeld, commit+": bundles are renewed without a change",
			false)
	}
	return after
}

func recordRenewal(r, before *v1beta2.RuntimeStatus, facts Facts) {
	if r.Published.Digest == facts.Published.Digest.String() {
		return
	}
	last, next := *r.Published, facts.Published.StatusEntry()
	next.Given, next.Certificate = last.Given, lastCertificate(before, next)
	next.Earlier = earlierBundles(before, Facts{Published: facts.Published})
	r.Published = &next
}

// updateModules sets the states of modules that the report changes, and the fields that depend on these states. A
// module keeps its state if the control plane could not resolve it, because nothing is resolved now, or if the report
// is about an earlier version of the module.
func updateModules(after *v1beta2.KymaStatus, before v1beta2.KymaStatus, facts Facts, now time.Time) {
	facts.Templates = map[string]v1beta2.PartialMeta{}
	for _, m := range before.Modules {
		if m.Template != nil {
			facts.Templates[m.Template.PartialMeta.Name] = m.Template.PartialMeta
		}
	}
	facts.unchangedBundle = findUnchanged(*after.Runtime.Published, facts, now)
	why := collectReasons(before)
	reported, reasons := moduleStatuses(before.Modules, nil, facts)
	changed := false
	for i, m := range after.Modules {
		at := slices.IndexFunc(why.Modules, func(r v1beta2.ModuleReasons) bool { return r.Name == m.Name })
		next := slices.IndexFunc(reported, func(r v1beta2.ModuleStatus) bool { return r.Name == m.Name })
		if at >= 0 && why.Modules[at].Problem != "" || next < 0 || !facts.isStateValid(m.Name) ||
			reported[next].State == m.State && reported[next].Version == m.Version {
			continue
		}
		after.Modules[i], changed = reported[next], true
		if at >= 0 {
			why.Modules = slices.Delete(why.Modules, at, at+1)
		}
		for _, r := range reasons {
			if r.Name == m.Name {
				why.Modules = append(why.Modules, r)
			}
		}
	}
	if !changed {
		return
	}
	slices.SortFunc(why.Modules, func(a, b v1beta2.ModuleReasons) int { return strings.Compare(a.Name, b.Name) })
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

// heldState returns the state of a Kyma while a Git commit is partially applied. It takes the causes other than modules
// from the conditions, because nothing determines these causes again during this time.
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
