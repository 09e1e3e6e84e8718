// Package report says what is: the bundle in force, the runtime's Kyma and its Manifests go in; the report for the
// control plane and the status of the runtime's own Kyma come out. It is pure.
package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// Facts are what is known of the runtime now.
type Facts struct {
	// Bundle is the one in force, nil before the first; Expired says that its time is over.
	Bundle  *bundle.Bundle
	Expired bool
	// Lost says which bundle was in force and is not stored any more, empty for none.
	Lost string
	// Decided are the modules that the runtime chose by itself; Bundle is as the runtime follows it.
	Decided []string
	// Refused are the bundles refused since.
	Refused []bundle.RefusedBundle
	// Unstaged are the modules whose content is not at hand, with the reason.
	Unstaged map[string]error
	// Trouble is what could not be written into the runtime, nil for nothing.
	Trouble *bundle.ReportedTrouble
	// Waiting are the modules whose upgrade waits for a maintenance window, with the reason.
	Waiting map[string]string
	// WaitReason is the reason of those in Waiting: the gate is the same for all.
	WaitReason reason.Reason
	// Unmanaged are the versions of modules that nobody looks after, by name.
	Unmanaged map[string]string
	// Secrets is what became of the Secrets that the bundle brought, nil when it brought none.
	Secrets *bundle.ReportedSecrets
	// Kyma is the runtime's own; its spec is what it asks for. Unreadable says that not all of that can be read, nil when
	// it can.
	Kyma       *v1beta2.Kyma
	Unreadable error
	Manifests  []v1beta2.Manifest
	// Templates are the generations of the runtime's ModuleTemplates, by name.
	Templates map[string]int64
	// Unenrolled says why the control plane cannot know the agent's reports as the runtime's, empty when it can.
	Unenrolled string
	// Unavailable says why no bundle can be read from the registry, empty when one can.
	Unavailable string
	// AgentProblem says why the agent does not run the image that the bundle names, empty when it does.
	AgentProblem string
	// Watched is what the control plane's watchers saw change.
	Watched []bundle.ReportedWatch
	// PhaseDone is the digest of the bundle whose phase of a takeover was done whole, Removed what was removed of
	// lifecycle-manager.
	PhaseDone string
	Removed   []bundle.ObjectRef
	// ClusterScoped are the names of Manifests whose default CR is of a kind without namespaces.
	ClusterScoped map[string]bool
}

// Modules returns the state of every installed module, sorted by name.
func Modules(facts Facts) []bundle.ReportedModule {
	modules := make([]bundle.ReportedModule, 0, len(facts.Manifests))
	for i := range facts.Manifests {
		m := &facts.Manifests[i]
		module := bundle.ReportedModule{
			Name: m.Module(), Channel: m.Labels[v1beta2.LabelChannel], Version: m.RunningVersion(),
			State: cmp.Or(m.Status.State, v1beta2.StateProcessing), Reason: reasonOf(m), Message: message(m),
			Manifest: &v1beta2.TrackingObject{
				TypeMeta:    metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Manifest"},
				PartialMeta: v1beta2.PartialMeta{Name: m.Name, Namespace: m.Namespace, Generation: m.Generation},
			},
		}
		if module.Version != m.Spec.Version {
			module.Wanted = m.Spec.Version
		}
		if !m.DeletionTimestamp.IsZero() && module.State == v1beta2.StateReady {
			module.State = v1beta2.StateDeleting
		}
		if ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady); ready != nil && ready.ObservedGeneration != m.Generation && m.DeletionTimestamp.IsZero() {
			// What the status says, good or bad, is about an older spec.
			module.State, module.Reason, module.Message = v1beta2.StateProcessing, "", ""
		}
		if r := m.Spec.Resource; r != nil {
			in := cmp.Or(r.GetNamespace(), v1beta2.RuntimeNamespace)
			if facts.ClusterScoped[m.Name] {
				in = ""
			}
			module.Resource = &v1beta2.TrackingObject{
				TypeMeta:    metav1.TypeMeta{APIVersion: r.GetAPIVersion(), Kind: r.GetKind()},
				PartialMeta: v1beta2.PartialMeta{Name: r.GetName(), Namespace: in},
			}
		}
		if why, waits := facts.Waiting[module.Name]; waits {
			module.Maintenance = true
			module.Reason = cmp.Or(module.Reason, facts.WaitReason)
			if module.Message != "" {
				why = module.Message + "; " + why // the module's own trouble comes first
			}
			module.Message = bounded(why)
		}
		if why := facts.Unstaged[module.Name]; why != nil {
			module.State, module.Reason = v1beta2.StateError, unstagedReason(why)
			module.Message = bounded(fmt.Sprintf("module %s: the next version waits: %v", module.Name, why))
		}
		modules = append(modules, module)
	}
	for name, why := range facts.Unstaged {
		if !slices.ContainsFunc(modules, func(m bundle.ReportedModule) bool { return m.Name == name }) {
			modules = append(modules, bundle.ReportedModule{Name: name, State: v1beta2.StateError, Reason: unstagedReason(why), Message: bounded(fmt.Sprintf("module %s: cannot be installed: %v", name, why))})
		}
	}
	modules = append(modules, released(facts, modules)...)
	for name, why := range facts.Waiting {
		if version, is := facts.Unmanaged[name]; is && !slices.ContainsFunc(modules, func(m bundle.ReportedModule) bool { return m.Name == name }) {
			modules = append(modules, bundle.ReportedModule{Name: name, Version: version, State: v1beta2.StateUnmanaged, Maintenance: true, Reason: facts.WaitReason, Message: bounded(why)})
		}
	}
	slices.SortFunc(modules, func(a, b bundle.ReportedModule) int { return cmp.Compare(a.Name, b.Name) })
	return modules
}

// unstagedReason returns why a module is not in the version of the bundle: ContentMissing, unless the error has another
// reason.
func unstagedReason(err error) reason.Reason {
	if r := reason.Of(err); r != reason.Other {
		return reason.Known(r, reason.Modules)
	}
	return reason.ContentMissing
}

// reasonOf returns the reason that condition Ready has while a Manifest is not ready.
func reasonOf(m *v1beta2.Manifest) reason.Reason {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady)
	if m.Status.State == v1beta2.StateReady || ready == nil {
		return ""
	}
	return reason.Known(reason.Reason(ready.Reason), reason.Modules)
}

// message is why a Manifest is not ready.
func message(m *v1beta2.Manifest) string {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady)
	if m.Status.State == v1beta2.StateReady || ready == nil {
		return ""
	}
	return bounded(ready.Message)
}

func bounded(text string) string { return bundle.Bounded(text, bundle.MaxMessageBytes) }

// New returns the report without its sequence and time, within the limits of a report.
func New(runtime string, facts Facts) bundle.Report {
	r := bundle.Report{
		Runtime: runtime, Modules: Modules(facts), Refused: facts.Refused, Decided: facts.Decided, Watched: facts.Watched,
		Secrets: facts.Secrets, AgentProblem: bounded(facts.AgentProblem), Trouble: facts.Trouble,
		Takeover: takeover(facts),
	}
	if b := facts.Bundle; b != nil {
		r.Observed = &bundle.Observed{Epoch: b.Statement.Predicate.Epoch, Sequence: b.Statement.Predicate.Sequence, Digest: b.Digest, Expired: facts.Expired}
	}
	if k := facts.Kyma; k != nil {
		r.Kyma = &bundle.ReportedKyma{Spec: k.Spec, Generation: k.Generation, Deleting: !k.DeletionTimestamp.IsZero(), State: k.Status.State}
	}
	if facts.Unreadable == nil || facts.Kyma == nil {
		return fit(r, maxPayloadBytes)
	}
	// A part of what is asked for must not be taken for all of it.
	asked := len(r.Kyma.Spec.Modules)
	r.Kyma.Spec.Modules = nil
	r = fit(r, maxPayloadBytes)
	if r.Truncated == nil {
		r.Truncated = &bundle.Truncated{}
	}
	r.Truncated.Asked = max(asked, 1)
	return r
}

// noBundle is said before the first bundle.
const noBundle = "no bundle was accepted yet"

// maxConditionBytes is well below what the API takes as the message of a condition.
const maxConditionBytes = 4096

// KymaStatus returns the status that the runtime's own Kyma has by these facts.
func KymaStatus(before v1beta2.KymaStatus, facts Facts, now time.Time) v1beta2.KymaStatus {
	after := *before.DeepCopy()
	withoutLifecycleManager(&after, facts)
	after.Modules = moduleStatuses(facts)
	after.ReadyModules, after.ObservedGeneration = v1beta2.CountReady(after.Modules), judged(before, facts)
	after.ActiveChannel = facts.Kyma.Spec.Channel
	set := func(kind, reason, message string, ok bool) {
		status := metav1.ConditionFalse
		if ok {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&after.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: bundle.Bounded(message, maxConditionBytes), ObservedGeneration: after.ObservedGeneration, LastTransitionTime: metav1.NewTime(now),
		})
	}
	acceptance(facts, set)
	if t := facts.Trouble; t != nil && t.Catalog {
		set(v1beta2.ConditionModuleCatalog, v1beta2.ReasonObjectRefused, "not all of the catalog is that of the bundle in force: "+t.Message, false)
	} else {
		set(v1beta2.ConditionModuleCatalog, v1beta2.ReasonReady, "the catalog is that of the bundle in force", facts.Bundle != nil)
	}
	unavailable := facts.Unavailable
	if unavailable != "" {
		unavailable = "no bundle can be read, what is in force stays: " + unavailable
	}
	for _, c := range []struct{ kind, wrong, right, trouble, good string }{
		{v1beta2.ConditionAgent, v1beta2.ReasonRolledBack, v1beta2.ReasonUpgraded, facts.AgentProblem, "the agent runs what the bundle names"},
		{v1beta2.ConditionRegistry, v1beta2.ReasonRegistryUnavailable, v1beta2.ReasonRegistryAvailable, unavailable, "bundles can be read"},
		{v1beta2.ConditionEnrolled, v1beta2.ReasonNotEnrolled, v1beta2.ReasonEnrolled, facts.Unenrolled, "the control plane knows the agent's key, or can"},
	} {
		if c.trouble != "" {
			set(c.kind, c.wrong, c.trouble, false)
		} else if meta.FindStatusCondition(after.Conditions, c.kind) != nil { // it was wrong once
			set(c.kind, c.right, c.good, true)
		}
	}
	after.State = v1beta2.StateReady
	why := "all modules are ready"
	for _, m := range after.Modules {
		if m.State == v1beta2.StateUnmanaged || m.State == v1beta2.StateReady {
			continue
		}
		state := m.State
		if state == v1beta2.StateDeleting {
			state = v1beta2.StateProcessing
		}
		if worse(state, after.State) {
			after.State, why = state, fmt.Sprintf("module %s is %s: %s", m.Name, m.State, cmp.Or(m.Message, "see its Manifest"))
		}
	}
	switch {
	case facts.Bundle == nil:
		after.State, why = v1beta2.StateProcessing, cmp.Or(facts.Lost, noBundle)
	case facts.Bundle.Statement.Predicate.Deleting:
		after.State, why = v1beta2.StateDeleting, "the Kyma was deleted in the control plane: the modules are being removed"
	}
	reason := map[bool]string{true: v1beta2.ReasonReady, false: v1beta2.ReasonNotReady}
	ready := after.State == v1beta2.StateReady
	set(v1beta2.ConditionModules, reason[ready], why, ready)
	if trouble := secrets(facts, set); trouble != "" && worse(v1beta2.StateWarning, after.State) {
		after.State, why, ready = v1beta2.StateWarning, "not all Secrets of the bundle in force are written: "+trouble, false
	}
	if trouble := synced(after.Conditions, facts, set); trouble != "" && worse(v1beta2.StateWarning, after.State) {
		after.State, why, ready = v1beta2.StateWarning, trouble, false
	}
	watchers(&after, facts, set)
	set(v1beta2.ConditionReady, reason[ready], why, ready)
	after.Operated(before, why, now)
	return after
}

// judged returns the generation of the Kyma that its status is about: what was judged before, until the control plane
// has answered the present one.
func judged(before v1beta2.KymaStatus, facts Facts) int64 {
	if b := facts.Bundle; b != nil && before.ObservedGeneration > 0 && !b.Statement.Predicate.Answers(facts.Kyma.Spec, facts.Kyma.Generation) {
		return before.ObservedGeneration
	}
	return facts.Kyma.Generation
}

// secrets tells what became of the Secrets that the bundle brought, and gives what is wrong with them.
func secrets(facts Facts, set func(string, string, string, bool)) string {
	switch s := facts.Secrets; {
	case s == nil:
		return ""
	case s.Trouble != "":
		set(v1beta2.ConditionSecrets, v1beta2.ReasonNotWritten, s.Trouble, false)
		return s.Trouble
	}
	set(v1beta2.ConditionSecrets, v1beta2.ReasonWritten, "the Secrets are as sealed in the bundle in force", true)
	return ""
}

// synced tells what could not be written into the runtime, and returns it; once that is over, it tells that.
func synced(conditions []metav1.Condition, facts Facts, set func(string, string, string, bool)) string {
	switch t := facts.Trouble; {
	case t != nil:
		set(v1beta2.ConditionSynced, t.Reason, t.Message, false)
		return t.Message
	case meta.FindStatusCondition(conditions, v1beta2.ConditionSynced) != nil:
		set(v1beta2.ConditionSynced, v1beta2.ReasonSynced, "all objects are as the bundle in force says", true)
	}
	return ""
}

// watchers tells whether what the bundle's Watchers ask for is watched, while there are any.
func watchers(after *v1beta2.KymaStatus, facts Facts, set func(string, string, string, bool)) {
	if facts.Bundle == nil || len(facts.Bundle.State.Watchers) == 0 {
		meta.RemoveStatusCondition(&after.Conditions, v1beta2.ConditionSKRWebhook)
		return
	}
	for _, w := range facts.Watched {
		if w.Trouble != "" {
			set(v1beta2.ConditionSKRWebhook, v1beta2.ReasonNotWatched, fmt.Sprintf("watcher %s: %s", w.Watcher, w.Trouble), false)
			return
		}
	}
	set(v1beta2.ConditionSKRWebhook, v1beta2.ReasonWatching, fmt.Sprintf("the agent watches what %d Watchers ask for", len(facts.Bundle.State.Watchers)), true)
}

func worse(a, b v1beta2.State) bool {
	order := []v1beta2.State{v1beta2.StateReady, v1beta2.StateProcessing, v1beta2.StateWarning, v1beta2.StateError}
	return slices.Index(order, a) > slices.Index(order, b)
}

func acceptance(facts Facts, set func(string, string, string, bool)) {
	switch {
	case len(facts.Refused) > 0:
		last := facts.Refused[len(facts.Refused)-1]
		set(v1beta2.ConditionAccepted, string(last.Reason), fmt.Sprintf("bundle %s was refused: %s; the one before stays in force", shortened(last.Digest), last.Detail), false)
	case facts.Bundle == nil:
		set(v1beta2.ConditionAccepted, v1beta2.ReasonNoBundle, cmp.Or(facts.Lost, noBundle), false)
	case facts.Expired:
		set(v1beta2.ConditionAccepted, string(refusal.Expired), fmt.Sprintf("the bundle in force expired at %s and no newer one came; it stays in force", facts.Bundle.Statement.Predicate.ExpiresAt.UTC().Format(time.RFC3339)), false)
	default:
		set(v1beta2.ConditionAccepted, v1beta2.ReasonAccepted, fmt.Sprintf("bundle %d is in force", facts.Bundle.Statement.Predicate.Sequence), true)
	}
}

func shortened(d digest.Digest) string {
	if text := d.String(); len(text) > 19 {
		return text[:19]
	}
	return d.String()
}

// moduleStatuses joins what is installed, what could not be resolved, and what was asked for here and is not answered
// yet.
func moduleStatuses(facts Facts) []v1beta2.ModuleStatus {
	found := map[string]v1beta2.ModuleStatus{}
	hidden := map[string]bool{}
	for _, m := range Modules(facts) {
		found[m.Name] = v1beta2.ModuleStatus{Name: m.Name, Channel: m.Channel, Version: m.Version, State: m.State, Message: m.Message, Maintenance: m.Maintenance, Manifest: m.Manifest, Resource: m.Resource}
	}
	for i := range facts.Manifests {
		m := &facts.Manifests[i]
		if m.Labels[v1beta2.LabelMandatoryModule] == v1beta2.True {
			hidden[m.Module()] = true
		}
		if _, unmanaged := facts.Unmanaged[m.Module()]; unmanaged {
			status := found[m.Module()]
			status.State = v1beta2.StateUnmanaged // also when it is to be managed again: its last Manifest has to go first
			found[m.Module()] = status
		}
	}
	if b := facts.Bundle; b != nil {
		for _, m := range b.State.Manifests {
			status := found[m.Module]
			status.Name, status.FQDN, status.OcmComponentName = m.Module, m.Component, m.Component
			if m.Template != "" && !status.Maintenance {
				status.Template = &v1beta2.TrackingObject{
					TypeMeta:    metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "ModuleTemplate"},
					PartialMeta: v1beta2.PartialMeta{Name: m.Template, Namespace: v1beta2.RuntimeNamespace, Generation: facts.Templates[m.Template]},
				}
			}
			if m.Unmanaged {
				// As in Kyma: nobody looks after what is behind it.
				status.Manifest, status.Resource, status.Template = nil, nil, nil
				// What is there is the version of its last Manifest, which may not be that of the bundle: its upgrade may have
				// waited.
				status.State, status.Channel = v1beta2.StateUnmanaged, m.Channel
				status.Version = cmp.Or(facts.Unmanaged[m.Module], m.Version)
			}
			status.State = cmp.Or(status.State, v1beta2.StateProcessing)
			found[m.Module] = status
		}
		for _, p := range b.State.Problems {
			status := found[p.Module]
			message := p.Message
			if status.Message != "" && slices.Contains(b.Statement.Predicate.Removals, p.Module) {
				message += "; " + status.Message // it names the objects that keep the module
			}
			status.Name, status.State, status.Message = p.Module, p.State, message
			if slices.ContainsFunc(facts.Kyma.Spec.Modules, func(m v1beta2.Module) bool { return m.Name == p.Module }) {
				delete(hidden, p.Module) // a mandatory module that the Kyma requests
			}
			status.Channel = cmp.Or(status.Channel, p.Channel)
			found[p.Module] = status
		}
	}
	if facts.Bundle == nil || !facts.Bundle.Statement.Predicate.Answers(facts.Kyma.Spec, facts.Kyma.Generation) {
		for _, m := range facts.Kyma.Spec.Modules {
			if _, known := found[m.Name]; !known {
				found[m.Name] = v1beta2.ModuleStatus{Name: m.Name, Channel: m.Channel, State: v1beta2.StateProcessing, Message: "waiting for the control plane to answer this request with a new bundle"}
			}
		}
	}
	all := make([]v1beta2.ModuleStatus, 0, len(found))
	for name, m := range found {
		if !hidden[name] {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b v1beta2.ModuleStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
