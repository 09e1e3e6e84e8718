// Package report computes the report for the control plane and the status of the runtime's Kyma. Its input is the
// last accepted bundle, the Kyma and the Manifests. It is pure.
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
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// Facts are the current state of the runtime.
type Facts struct {
	// Bundle is the last accepted bundle. It is nil before the first bundle.
	Bundle  *bundle.Bundle
	Expired bool
	// LostBundle is a message about an accepted bundle that the agent could not restore after a restart. It is empty if
	// no bundle was lost.
	LostBundle string
	// SelectedModules contains the modules that an autonomous runtime selected. Bundle includes these selections.
	SelectedModules []string
	// RefusedBundles contains the newer bundles that the agent refused.
	RefusedBundles []bundle.RefusedBundle
	// ContentErrors contains the error for each module with missing content.
	ContentErrors map[string]error
	// Trouble summarizes failed writes to the runtime. It is nil if no write failed.
	Trouble *bundle.ReportedTrouble
	// WaitingUpgrades contains a message for each module whose upgrade waits for a maintenance window.
	WaitingUpgrades map[string]string
	// WaitReason is the reason for all waiting upgrades.
	WaitReason reason.Reason
	// UnremovedModules contains the modules whose removal is requested but has not begun. Their Manifests can be
	// missing.
	UnremovedModules []string
	// Unmanaged contains the unmanaged modules' installed versions. The key is the module's name.
	Unmanaged map[string]string
	// Secrets is the result of writing the bundle's Secrets. It is nil if the bundle has none.
	Secrets *bundle.ReportedSecrets
	// Kyma is the runtime's own Kyma. Its module versions come from the annotation with pinned versions. PinsError is
	// the error from reading that annotation.
	Kyma      *v1beta2.Kyma
	PinsError error
	Manifests []v1beta2.Manifest
	// Templates contains the generation of each ModuleTemplate in the runtime, by name.
	Templates map[string]int64
	// EnrollmentProblem is the reason why the control plane cannot verify the agent's reports, or empty.
	EnrollmentProblem string
	// RegistryProblem is the error from reading bundles from the registry. It is empty if the registry is available.
	RegistryProblem string
	// AgentProblem is the reason why the agent does not run the bundle's image, or empty if the agent runs this image.
	AgentProblem string
	// Watched contains the changes to objects that the bundle's Watchers select.
	Watched []bundle.ReportedWatch
	// PhaseDone is the digest of the bundle whose takeover phase is complete. Removed contains the lifecycle-manager
	// objects that were removed.
	PhaseDone string
	Removed   []bundle.ObjectRef
	// ReadRecord returns a Manifest's verified record. It is needed only for takeovers.
	ReadRecord func(*v1beta2.Manifest) record.Record `json:"-"`
	// Checks returns the check results for a module version. It is nil if the agent runs no checks.
	Checks func(module, version string) []bundle.ReportedCheck `json:"-"`
	// CheckRun is the requested check run's result. It is nil if none was requested.
	CheckRun *bundle.ReportedCheckRun
	// Details contains the module details that the bundle requests, by the name of the module's Manifest.
	Details map[string]*bundle.ModuleDetails
	// ClusterScoped contains the names of Manifests with a cluster-scoped default CR.
	ClusterScoped map[string]bool
}

func truncate(text string) string { return bundle.Bounded(text, bundle.MaxMessageBytes) }

// takeover returns the part of the facts that the package takeover needs.
func (f Facts) takeover() takeover.Facts {
	return takeover.Facts{
		Bundle: f.Bundle, Manifests: f.Manifests, PhaseDone: f.PhaseDone, Removed: f.Removed, ContentErrors: f.ContentErrors,
		Trouble: f.Trouble, Unmanaged: f.Unmanaged, Message: readyMessage, ReadRecord: f.ReadRecord,
	}
}

// New returns a report that is shortened to the size limits. The caller sets its sequence and time.
func New(runtime string, facts Facts) bundle.Report {
	r := bundle.Report{
		Runtime: runtime, Modules: modules(facts), Refused: facts.RefusedBundles, Decided: facts.SelectedModules,
		Watched: facts.Watched,
		Secrets: facts.Secrets, AgentProblem: truncate(facts.AgentProblem), Trouble: facts.Trouble,
		Takeover: takeover.ReportProgress(facts.takeover()), CheckRun: facts.CheckRun,
	}
	if b := facts.Bundle; b != nil {
		r.Observed = &bundle.Observed{
			Epoch:    b.Statement.Predicate.Epoch,
			Sequence: b.Statement.Predicate.Sequence,
			Digest:   b.Digest,
			Expired:  facts.Expired,
		}
	}
	if k := facts.Kyma; k != nil {
		r.Kyma = &bundle.ReportedKyma{
			Spec:       k.Spec,
			Generation: k.Generation,
			Deleting:   !k.DeletionTimestamp.IsZero(),
			State:      k.Status.State,
		}
	}
	if facts.PinsError == nil || facts.Kyma == nil {
		return shrinkToFit(r, maxPayloadBytes)
	}
	// The list of requested modules can be incomplete. Omit it, because the control plane would replace its complete
	// list with the incomplete one.
	asked := len(r.Kyma.Spec.Modules)
	r.Kyma.Spec.Modules = nil
	r = shrinkToFit(r, maxPayloadBytes)
	if r.Truncated == nil {
		r.Truncated = &bundle.Truncated{}
	}
	r.Truncated.Requested = max(asked, 1)
	return r
}

const noBundle = "no bundle was accepted yet"

// maxConditionBytes limits a condition's message. It is lower than the Kubernetes API's limit.
const maxConditionBytes = 4096

// KymaStatus returns the runtime Kyma's new status.
func KymaStatus(before v1beta2.KymaStatus, facts Facts, now time.Time) v1beta2.KymaStatus {
	after := *before.DeepCopy()
	takeover.RemoveConditions(&after, facts.Bundle)
	after.Modules = moduleStatuses(facts)
	after.ReadyModules, after.ObservedGeneration = v1beta2.CountReady(after.Modules), observedGeneration(before, facts)
	after.ActiveChannel = facts.Kyma.Spec.Channel
	set := func(kind, reason, message string, ok bool) {
		status := metav1.ConditionFalse
		if ok {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&after.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: bundle.Bounded(message, maxConditionBytes),
			ObservedGeneration: after.ObservedGeneration, LastTransitionTime: metav1.NewTime(now),
		})
	}
	setAcceptedCondition(facts, set)
	setCatalogCondition(facts, set)
	unavailable := facts.RegistryProblem
	if unavailable != "" {
		unavailable = "failed to read bundles, continuing with the last accepted bundle: " + unavailable
	}
	for _, c := range []struct{ kind, wrong, right, trouble, good string }{
		{
			v1beta2.ConditionAgent, v1beta2.ReasonRolledBack, v1beta2.ReasonUpgraded, facts.AgentProblem,
			"the agent runs the image from the bundle",
		},
		{
			v1beta2.ConditionRegistry, v1beta2.ReasonRegistryUnavailable, v1beta2.ReasonRegistryAvailable, unavailable,
			"bundles are readable",
		},
		{
			v1beta2.ConditionEnrolled, v1beta2.ReasonNotEnrolled, v1beta2.ReasonEnrolled, facts.EnrollmentProblem,
			"the control plane can verify the agent's key",
		},
	} {
		if c.trouble != "" {
			set(c.kind, c.wrong, c.trouble, false)
		} else if meta.FindStatusCondition(after.Conditions, c.kind) != nil {
			// Report the end of a problem. A Kyma that never had the problem does not get the condition.
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
		if isWorse(state, after.State) {
			after.State, why = state,
				fmt.Sprintf("module %s is %s: %s", m.Name, m.State, cmp.Or(m.Message, "see its Manifest"))
		}
	}
	switch {
	case facts.Bundle == nil:
		after.State, why = v1beta2.StateProcessing, cmp.Or(facts.LostBundle, noBundle)
	case facts.Bundle.Statement.Predicate.Deleting:
		after.State, why = v1beta2.StateDeleting,
			"the Kyma was deleted in the control plane: the modules are being removed"
	}
	reason := map[bool]string{true: v1beta2.ReasonReady, false: v1beta2.ReasonNotReady}
	ready := after.State == v1beta2.StateReady
	set(v1beta2.ConditionModules, reason[ready], why, ready)
	if trouble := setSecretsCondition(facts, set); trouble != "" && isWorse(v1beta2.StateWarning, after.State) {
		after.State, ready = v1beta2.StateWarning, false
		why = "failed to write some Secrets of the last accepted bundle: " + trouble
	}
	if trouble := setSyncedCondition(after.Conditions, facts, set); trouble != "" &&
		isWorse(v1beta2.StateWarning, after.State) {
		after.State, why, ready = v1beta2.StateWarning, trouble, false
	}
	setWatchersCondition(&after, facts, set)
	set(v1beta2.ConditionReady, reason[ready], why, ready)
	after.UpdateLastOperation(before, why, now)
	return after
}

// observedGeneration returns the observedGeneration for the Kyma's status. The value does not increase until the agent
// accepts a bundle for the Kyma's current generation.
func observedGeneration(before v1beta2.KymaStatus, facts Facts) int64 {
	if b := facts.Bundle; b != nil && before.ObservedGeneration > 0 &&
		!b.Statement.Predicate.IsBuiltFor(facts.Kyma.Spec, facts.Kyma.Generation) {
		return before.ObservedGeneration
	}
	return facts.Kyma.Generation
}

func isWorse(a, b v1beta2.State) bool {
	order := []v1beta2.State{v1beta2.StateReady, v1beta2.StateProcessing, v1beta2.StateWarning, v1beta2.StateError}
	return slices.Index(order, a) > slices.Index(order, b)
}

func setAcceptedCondition(facts Facts, set func(string, string, string, bool)) {
	switch {
	case len(facts.RefusedBundles) > 0:
		last := facts.RefusedBundles[len(facts.RefusedBundles)-1]
		set(
			v1beta2.ConditionAccepted,
			string(last.Reason),
			fmt.Sprintf("bundle %s was refused: %s; the previous bundle stays in use", shortDigest(last.Digest),
				last.Detail),
			false,
		)
	case facts.Bundle == nil:
		set(v1beta2.ConditionAccepted, v1beta2.ReasonNoBundle, cmp.Or(facts.LostBundle, noBundle), false)
	case facts.Expired:
		set(v1beta2.ConditionAccepted, string(refusal.Expired),
			fmt.Sprintf("the bundle expired at %s, and stays in use until a newer bundle is accepted",
				facts.Bundle.Statement.Predicate.ExpiresAt.UTC().Format(time.RFC3339)), false)
	default:
		set(v1beta2.ConditionAccepted, v1beta2.ReasonAccepted,
			fmt.Sprintf("bundle %d is in force", facts.Bundle.Statement.Predicate.Sequence), true)
	}
}

func shortDigest(d digest.Digest) string {
	if text := d.String(); len(text) > 19 {
		return text[:19]
	}
	return d.String()
}

// mandatoryModules returns the mandatory modules. A Manifest's label can be outdated, so the bundle takes precedence.
func mandatoryModules(facts Facts) map[string]bool {
	mandatory := map[string]bool{}
	for i := range facts.Manifests {
		if m := &facts.Manifests[i]; m.Labels[v1beta2.LabelMandatoryModule] == v1beta2.True {
			mandatory[m.Module()] = true
		}
	}
	if facts.Bundle != nil {
		for _, m := range facts.Bundle.State.Manifests {
			if !m.IsMandatory() {
				delete(mandatory, m.Module)
			}
		}
	}
	return mandatory
}

// moduleStatuses returns the module list of the Kyma's status: installed modules, modules that the control plane could
// not resolve, and requested modules that are not in the bundle yet.
func moduleStatuses(facts Facts) []v1beta2.ModuleStatus {
	found := map[string]v1beta2.ModuleStatus{}
	hidden := mandatoryModules(facts)
	for _, m := range modules(facts) {
		found[m.Name] = v1beta2.ModuleStatus{
			Name:        m.Name,
			Channel:     m.Channel,
			Version:     m.Version,
			State:       m.State,
			Message:     m.Message,
			Maintenance: m.Maintenance,
			Manifest:    m.Manifest,
			Resource:    m.Resource,
		}
	}
	for i := range facts.Manifests {
		m := &facts.Manifests[i]
		if _, unmanaged := facts.Unmanaged[m.Module()]; unmanaged {
			status := found[m.Module()]
			// A module that became unmanaged has the state Unmanaged even before its Manifest is deleted.
			status.State = v1beta2.StateUnmanaged
			found[m.Module()] = status
		}
	}
	if b := facts.Bundle; b != nil {
		for _, m := range b.State.Manifests {
			status := found[m.Module]
			status.Name, status.FQDN, status.OcmComponentName = m.Module, m.Component, m.Component
			if m.Template != "" && !status.Maintenance {
				status.Template = &v1beta2.TrackingObject{
					TypeMeta: metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "ModuleTemplate"},
					PartialMeta: v1beta2.PartialMeta{
						Name:       m.Template,
						Namespace:  v1beta2.RuntimeNamespace,
						Generation: facts.Templates[m.Template],
					},
				}
			}
			if m.Unmanaged {
				// As in lifecycle-manager, an unmanaged module's status has no Manifest, resource or template.
				status.Manifest, status.Resource, status.Template = nil, nil, nil
				// Show the installed version, which can be older than the bundle's version.
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
				message += "; " + status.Message // status.Message lists objects that block the removal
			}
			status.Name, status.State, status.Message = p.Module, p.State, message
			if slices.ContainsFunc(facts.Kyma.Spec.Modules, func(m v1beta2.Module) bool { return m.Name == p.Module }) {
				delete(hidden, p.Module) // show a mandatory module that the Kyma also requests
			}
			status.Channel = cmp.Or(status.Channel, p.Channel)
			found[p.Module] = status
		}
	}
	if facts.Bundle == nil || !facts.Bundle.Statement.Predicate.IsBuiltFor(facts.Kyma.Spec, facts.Kyma.Generation) {
		for _, m := range facts.Kyma.Spec.Modules {
			if _, known := found[m.Name]; !known {
				found[m.Name] = v1beta2.ModuleStatus{
					Name:    m.Name,
					Channel: m.Channel,
					State:   v1beta2.StateProcessing,
					Message: "waiting for the control plane to publish a bundle with this module",
				}
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
