package takeover

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// Facts is the input for the report about a takeover phase.
type Facts struct {
	// Bundle is the last accepted bundle, or nil.
	Bundle    *bundle.Bundle
	Manifests []v1beta2.Manifest
	// PhaseDone is the digest of the bundle whose takeover phase is complete. Removed contains the lifecycle-manager
	// objects that were removed.
	PhaseDone string
	Removed   []bundle.ObjectRef
	// ContentErrors contains the error for each module with missing content.
	ContentErrors map[string]error
	// Trouble summarizes failed writes to the runtime. It is nil if no write failed.
	Trouble *bundle.ReportedTrouble
	// Unmanaged contains the unmanaged modules' installed versions. The key is the module's name.
	Unmanaged map[string]string
	// Message returns a Manifest's problem, or "" if it has no problem.
	Message func(*v1beta2.Manifest) string
	// ReadRecord returns a Manifest's verified record.
	ReadRecord func(*v1beta2.Manifest) record.Record
}

// ReleasesRuntime reports whether a bundle returns the runtime to lifecycle-manager. Lifecycle-manager then writes the
// Kyma's status, the catalog and the CRDs, so the agent must not write them.
func ReleasesRuntime(b *bundle.Bundle) bool {
	return b != nil && b.State.Takeover == bundle.TakeoverRelease
}

// ReportProgress returns the progress in the bundle's takeover phase, or nil if the bundle has no phase.
func ReportProgress(facts Facts) *bundle.ReportedTakeover {
	if facts.Bundle == nil || facts.Bundle.State.Takeover == "" {
		return nil
	}
	t := &bundle.ReportedTakeover{Phase: facts.Bundle.State.Takeover}
	switch t.Phase {
	case bundle.TakeoverAdopt:
		t.Adopted, t.Message = adoptedModules(facts)
		t.Done = t.Message == ""
	default:
		t.Done = facts.PhaseDone == facts.Bundle.Digest.String()
		t.Removed = facts.Removed[:min(len(facts.Removed), bundle.MaxRemovedReported)]
	}
	if !t.Done && t.Message == "" {
		t.Message = unfinishedReason(facts)
	}
	return t
}

// ReleasedModules returns the names and versions of the modules that are unmanaged because the bundle returns the
// runtime to lifecycle-manager. It omits the modules in reported.
func ReleasedModules(facts Facts, reported []bundle.ReportedModule) (all []bundle.ReportedModule) {
	if !ReleasesRuntime(facts.Bundle) {
		return nil
	}
	for name, version := range facts.Unmanaged {
		if !slices.ContainsFunc(reported, func(m bundle.ReportedModule) bool { return m.Name == name }) {
			all = append(all, bundle.ReportedModule{Name: name, Version: version, State: v1beta2.StateUnmanaged})
		}
	}
	return all
}

// unfinishedReason returns the reason why the takeover phase clean or release is not complete.
func unfinishedReason(facts Facts) string {
	switch {
	case facts.Trouble != nil:
		return facts.Trouble.Message
	case facts.Bundle.State.Takeover == bundle.TakeoverRelease && len(facts.Manifests) > 0:
		m := &facts.Manifests[0]
		return truncate(fmt.Sprintf("waiting for the deletion of Manifest %s and %d others: %s", m.Name,
			len(facts.Manifests)-1, cmp.Or(facts.Message(m), "its objects are being returned to lifecycle-manager")))
	}
	return "the phase is in progress"
}

// RemoveConditions removes conditions from the runtime Kyma's status if only lifecycle-manager updates them. It does
// nothing outside of the takeover phase clean.
func RemoveConditions(status *v1beta2.KymaStatus, b *bundle.Bundle) {
	if b == nil || b.State.Takeover != bundle.TakeoverClean {
		return
	}
	for _, kind := range v1beta2.LifecycleManagerConditions {
		meta.RemoveStatusCondition(&status.Conditions, kind)
	}
}

// adoptedModules returns the modules whose inherited objects were applied completely. why is the reason why the first
// of the remaining modules is not adopted yet.
func adoptedModules(facts Facts) (modules []string, why string) {
	for _, want := range facts.Bundle.State.All() {
		if len(want.Inherited) == 0 {
			continue
		}
		i := slices.IndexFunc(facts.Manifests, func(m v1beta2.Manifest) bool { return m.Name == want.Name })
		if i >= 0 && isAdopted(&facts.Manifests[i], want.Inherited, facts.ReadRecord) {
			modules = append(modules, want.Module)
			continue
		}
		reason := "the Manifest does not exist yet"
		if i >= 0 {
			reason = cmp.Or(facts.Message(&facts.Manifests[i]), "the Manifest is being applied")
		}
		if refused := facts.ContentErrors[want.Module]; refused != nil {
			reason = refused.Error()
		}
		why = cmp.Or(why,
			truncate(fmt.Sprintf("module %s (Manifest %s) is not adopted: %s", want.Module, want.Name, reason)))
	}
	slices.Sort(modules)
	return modules, why
}

// isAdopted reports whether a Manifest's inventory contains these inherited objects and a module version was applied
// completely. The control plane removes an adopted module from lifecycle-manager. Therefore, isAdopted uses only the
// signed record: other clients could write an unsigned record.
func isAdopted(
	m *v1beta2.Manifest, inherited []bundle.ObjectRef, read func(*v1beta2.Manifest) record.Record,
) bool {
	r := read(m)
	return r.Inherited == inheritedDigest(inherited) && m.DeletionTimestamp.IsZero() &&
		(r.Applied != nil || meta.IsStatusConditionTrue(m.Status.Conditions, v1beta2.ConditionInstallation))
}

func truncate(text string) string { return bundle.Bounded(text, bundle.MaxMessageBytes) }
