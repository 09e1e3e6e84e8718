package takeover

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Facts are the agent's facts about the phase of the bundle in force.
type Facts struct {
	// Bundle is the bundle in force, nil for none.
	Bundle    *bundle.Bundle
	Manifests []v1beta2.Manifest
	// PhaseDone and Removed are from Phases.
	PhaseDone string
	Removed   []bundle.ObjectRef
	// Unstaged contains the error of each module whose content is missing.
	Unstaged map[string]error
	// Trouble summarizes failed writes into the runtime, nil for none.
	Trouble *bundle.ReportedTrouble
	// Unmanaged contains the versions of unmanaged modules by name.
	Unmanaged map[string]string
	// Message returns the problem of a Manifest, empty for none.
	Message func(*v1beta2.Manifest) string
}

// Releases reports whether a bundle gives the runtime back to lifecycle-manager, which then writes the Kyma's status,
// the catalog and their definitions.
func Releases(b *bundle.Bundle) bool { return b != nil && b.State.Takeover == bundle.TakeoverRelease }

// Progress returns the progress of the phase in the bundle in force, nil without one.
func Progress(facts Facts) *bundle.ReportedTakeover {
	if facts.Bundle == nil || facts.Bundle.State.Takeover == "" {
		return nil
	}
	t := &bundle.ReportedTakeover{Phase: facts.Bundle.State.Takeover}
	switch t.Phase {
	case bundle.TakeoverAdopt:
		t.Adopted, t.Message = adopted(facts)
		t.Done = t.Message == ""
	default:
		t.Done = facts.PhaseDone == facts.Bundle.Digest.String()
		t.Removed = facts.Removed[:min(len(facts.Removed), bundle.MaxRemovedReported)]
	}
	if !t.Done && t.Message == "" {
		t.Message = unfinished(facts)
	}
	return t
}

// Released returns the modules that were given back and have no Manifest anymore. Lifecycle-manager continues with
// their versions.
func Released(facts Facts, reported []bundle.ReportedModule) (all []bundle.ReportedModule) {
	if !Releases(facts.Bundle) {
		return nil
	}
	for name, version := range facts.Unmanaged {
		if !slices.ContainsFunc(reported, func(m bundle.ReportedModule) bool { return m.Name == name }) {
			all = append(all, bundle.ReportedModule{Name: name, Version: version, State: v1beta2.StateUnmanaged})
		}
	}
	return all
}

// unfinished returns the reason why the phases remove and release are not complete.
func unfinished(facts Facts) string {
	switch {
	case facts.Trouble != nil:
		return facts.Trouble.Message
	case facts.Bundle.State.Takeover == bundle.TakeoverRelease && len(facts.Manifests) > 0:
		m := &facts.Manifests[0]
		return bounded(fmt.Sprintf("waiting until Manifest %s is gone and %d others: %s", m.Name,
			len(facts.Manifests)-1, cmp.Or(facts.Message(m), "its objects are being given back")))
	}
	return "waiting until it is done"
}

// Forget removes conditions of the runtime's Kyma that only lifecycle-manager updated.
func Forget(status *v1beta2.KymaStatus, b *bundle.Bundle) {
	if b == nil || b.State.Takeover != bundle.TakeoverClean {
		return
	}
	for _, kind := range v1beta2.LifecycleManagerConditions {
		meta.RemoveStatusCondition(&status.Conditions, kind)
	}
}

// adopted returns the modules that were applied completely with their inherited objects, and the obstacle of the first
// other one.
func adopted(facts Facts) (modules []string, why string) {
	for _, want := range facts.Bundle.State.All() {
		if len(want.Inherited) == 0 {
			continue
		}
		i := slices.IndexFunc(facts.Manifests, func(m v1beta2.Manifest) bool { return m.Name == want.Name })
		if i >= 0 && isAdopted(&facts.Manifests[i]) {
			modules = append(modules, want.Module)
			continue
		}
		reason := "it is not there yet"
		if i >= 0 {
			reason = cmp.Or(facts.Message(&facts.Manifests[i]), "it is being applied")
		}
		if refused := facts.Unstaged[want.Module]; refused != nil {
			reason = refused.Error()
		}
		why = cmp.Or(why,
			bounded(fmt.Sprintf("module %s is not adopted: Manifest %s: %s", want.Module, want.Name, reason)))
	}
	slices.Sort(modules)
	return modules, why
}

// isAdopted reports whether a Manifest has its list of inherited objects and was applied completely, in any version.
func isAdopted(m *v1beta2.Manifest) bool {
	return m.Annotations[v1beta2.AnnotationInherited] != "" && m.DeletionTimestamp.IsZero() &&
		(m.Applied() != nil || meta.IsStatusConditionTrue(m.Status.Conditions, v1beta2.ConditionInstallation))
}

func bounded(text string) string { return bundle.Bounded(text, bundle.MaxMessageBytes) }
