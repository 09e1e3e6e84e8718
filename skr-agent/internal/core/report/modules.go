package report

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// modules returns the state of every installed module, and of every module in the bundle without a Manifest. The
// modules are sorted by name.
func modules(facts Facts) []bundle.ReportedModule {
	modules := make([]bundle.ReportedModule, 0, len(facts.Manifests))
	for i := range facts.Manifests {
		m := &facts.Manifests[i]
		module := bundle.ReportedModule{
			Name: m.Module(), Channel: m.Labels[v1beta2.LabelChannel], Version: record.RunningVersion(m),
			State: cmp.Or(m.Status.State, v1beta2.StateProcessing), Reason: readyReason(m), Message: readyMessage(m),
			Manifest: &v1beta2.TrackingObject{
				TypeMeta:    metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Manifest"},
				PartialMeta: v1beta2.PartialMeta{Name: m.Name, Namespace: m.Namespace, Generation: m.Generation},
			},
		}
		module.Details = facts.Details[m.Name]
		if module.Version != m.Spec.Version {
			module.Wanted = m.Spec.Version
		}
		if facts.Checks != nil {
			module.Checks = facts.Checks(module.Name, module.Version)
		}
		if !m.DeletionTimestamp.IsZero() && module.State == v1beta2.StateReady {
			module.State = v1beta2.StateDeleting
		}
		if ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady); ready != nil &&
			ready.ObservedGeneration != m.Generation &&
			m.DeletionTimestamp.IsZero() {
			// The status does not describe the Manifest's current generation yet.
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
		if module.State == v1beta2.StateReady {
			module.Message = fieldsMessage(m)
		}
		if why, waits := facts.WaitingUpgrades[module.Name]; waits {
			module.Maintenance = true
			module.Reason = cmp.Or(module.Reason, facts.WaitReason)
			if module.Message != "" {
				why = module.Message + "; " + why // the module's own message comes before the reason for the wait
			}
			module.Message = truncate(why)
		}
		if why := facts.ContentErrors[module.Name]; why != nil {
			module.State, module.Reason = v1beta2.StateError, contentErrorReason(why)
			module.Message = truncate(fmt.Sprintf("module %s cannot be updated: %v", module.Name, why))
		}
		modules = append(modules, module)
	}
	for name, why := range facts.ContentErrors {
		if !slices.ContainsFunc(modules, func(m bundle.ReportedModule) bool { return m.Name == name }) {
			modules = append(
				modules,
				bundle.ReportedModule{
					Name:    name,
					State:   v1beta2.StateError,
					Reason:  contentErrorReason(why),
					Message: truncate(fmt.Sprintf("module %s cannot be installed: %v", name, why)),
				},
			)
		}
	}
	modules = append(modules, takeover.ReleasedModules(facts.takeover(), modules)...)
	for name, why := range facts.WaitingUpgrades {
		if version, is := facts.Unmanaged[name]; is &&
			!slices.ContainsFunc(modules, func(m bundle.ReportedModule) bool { return m.Name == name }) {
			modules = append(
				modules,
				bundle.ReportedModule{
					Name:        name,
					Version:     version,
					State:       v1beta2.StateUnmanaged,
					Maintenance: true,
					Reason:      facts.WaitReason,
					Message:     truncate(why),
				},
			)
		}
	}
	modules = append(modules, missingModules(facts.Bundle, modules)...)
	modules = append(modules, unremovedModules(facts.UnremovedModules, modules)...)
	slices.SortFunc(modules, func(a, b bundle.ReportedModule) int { return cmp.Compare(a.Name, b.Name) })
	return modules
}

// missingModules returns the bundle's modules that have no Manifest, for example because a user deleted the Manifest
// CRD. If the report did not contain the versions of these modules, a control plane that was restored from a backup
// would publish older versions.
func missingModules(b *bundle.Bundle, reported []bundle.ReportedModule) (all []bundle.ReportedModule) {
	if b == nil || b.State.Takeover != "" {
		return nil // during a takeover, lifecycle-manager can still own the Manifests
	}
	for _, m := range b.State.Manifests {
		if m.Unmanaged ||
			slices.ContainsFunc(reported, func(r bundle.ReportedModule) bool { return r.Name == m.Module }) {
			continue
		}
		all = append(all, bundle.ReportedModule{
			Name: m.Module, Channel: m.Channel, Wanted: m.Version, State: v1beta2.StateProcessing,
			Message: truncate(fmt.Sprintf("waiting until Manifest %s exists", m.Name)),
		})
	}
	return all
}

// unremovedModules returns the modules without a Manifest whose removal is requested but has not begun. If the report
// did not contain these modules, the control plane would consider the removal complete.
func unremovedModules(names []string, reported []bundle.ReportedModule) (all []bundle.ReportedModule) {
	for _, name := range names {
		if !slices.ContainsFunc(reported, func(r bundle.ReportedModule) bool { return r.Name == name }) {
			all = append(all, bundle.ReportedModule{
				Name: name, State: v1beta2.StateDeleting,
				Message: "waiting until the module's Manifest is restored, to remove the module's objects",
			})
		}
	}
	return all
}

// contentErrorReason returns the reason why a module does not have the bundle's version.
func contentErrorReason(err error) reason.Reason {
	if r := reason.Of(err); r != reason.Other {
		return reason.Known(r, reason.Modules)
	}
	return reason.ContentMissing
}

// readyReason returns the reason for a Manifest's condition Ready, or "" if the Manifest is ready.
func readyReason(m *v1beta2.Manifest) reason.Reason {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady)
	if m.Status.State == v1beta2.StateReady || ready == nil {
		return ""
	}
	return reason.Known(reason.Reason(ready.Reason), reason.Modules)
}

// readyMessage returns the message of a Manifest's condition Ready, or "" if the Manifest is ready.
func readyMessage(m *v1beta2.Manifest) string {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady)
	if m.Status.State == v1beta2.StateReady || ready == nil {
		return ""
	}
	return truncate(ready.Message)
}

// fieldsMessage returns the message about unknown fields in a module's objects, or "" if all fields are known.
func fieldsMessage(m *v1beta2.Manifest) string {
	fields := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionFields)
	if fields == nil || fields.Status != metav1.ConditionFalse {
		return ""
	}
	return truncate(fields.Message)
}
