// Package phase computes the takeover phase for a Kyma's bundles. It does not perform I/O. The core packages import
// package phase, so it must not import them.
package phase

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// PhaseOf returns the phase of a Kyma's takeover from lifecycle-manager, or "" if the Kyma is not being taken over.
func PhaseOf(kyma *v1beta2.Kyma) (bundle.TakeoverPhase, error) {
	if kyma.Labels[v1beta2.LabelTakeover] != v1beta2.TakeoverActive || !kyma.DeletionTimestamp.IsZero() {
		return "", nil
	}
	switch phase := bundle.TakeoverPhase(cmp.Or(kyma.Annotations[v1beta2.AnnotationTakeoverPhase],
		string(bundle.TakeoverAdopt))); phase {
	case bundle.TakeoverAdopt, bundle.TakeoverClean, bundle.TakeoverRelease:
		return phase, nil
	default:
		return "",
			reason.Errorf(reason.AnnotationInvalid, "annotation %s is %q, must be %s, %s or %s",
				v1beta2.AnnotationTakeoverPhase, bundle.Bounded(string(phase), bundle.MaxMessageBytes),
				bundle.TakeoverAdopt, bundle.TakeoverClean, bundle.TakeoverRelease)
	}
}

// Inherited is a module that lifecycle-manager installed in a runtime.
type Inherited struct {
	Module, Channel, Version string
	// Unmanaged is true if the module was unmanaged before the takeover.
	Unmanaged bool
	// Objects lists the installed objects, in the order of bundle.SortObjects.
	Objects []bundle.ObjectRef
}

// TakeoverInput contains the data about a Kyma's takeover that affects how the Kyma's module request is resolved.
type TakeoverInput struct {
	Phase bundle.TakeoverPhase
	// Inherited lists the modules that lifecycle-manager installed and that the agent has not adopted yet, sorted by
	// name.
	Inherited []Inherited
	// Unheard is true until the runtime's first report in this takeover. Until then, modules do not change, because the
	// runtime's request is unknown.
	Unheard bool
}

// NewInput returns the TakeoverInput for a Kyma. It returns the zero value if the Kyma is not being taken over.
func NewInput(kyma *v1beta2.Kyma) (TakeoverInput, error) {
	phase, err := PhaseOf(kyma)
	if phase == "" || err != nil {
		return TakeoverInput{}, err
	}
	asked := TakeoverInput{Phase: phase}
	s := kyma.Status.Runtime
	if s == nil || s.Takeover == nil {
		return asked,
			fmt.Errorf(
				"label %s: the modules of lifecycle-manager are not recorded yet: only `kcp-publisher run` can take "+
					"over a Kyma",
				v1beta2.LabelTakeover)
	}
	switch {
	case phase == bundle.TakeoverRelease:
	case (s.Requested == nil || !s.Takeover.Heard) && kyma.Labels[v1beta2.LabelSync] != v1beta2.False:
		asked.Unheard = true
	default:
		asked.Inherited = notAdopted(s.Takeover)
	}
	return asked, nil
}

// notAdopted returns the modules that lifecycle-manager installed and that the agent has not adopted yet.
func notAdopted(status *v1beta2.TakeoverStatus) (all []Inherited) {
	for _, m := range status.Modules {
		if m.Adopted {
			continue
		}
		objects := make([]bundle.ObjectRef, 0, len(m.Objects))
		for _, o := range m.Objects {
			objects = append(
				objects,
				bundle.ObjectRef{
					Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name,
				},
			)
		}
		all = append(all, Inherited{
			Module: m.Name, Channel: m.Channel, Version: m.Version, Unmanaged: m.Unmanaged,
			Objects: bundle.SortObjects(objects),
		})
	}
	slices.SortFunc(all, func(a, b Inherited) int { return strings.Compare(a.Module, b.Module) })
	return all
}

// IsFinished reports whether a Kyma's takeover is finished but the Kyma still has the takeover label.
func IsFinished(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelTakeover] == v1beta2.TakeoverFinished
}

// IsReleased reports whether a bundle returns the runtime to lifecycle-manager.
func IsReleased(state bundle.DesiredState) bool { return state.Takeover == bundle.TakeoverRelease }

// WasReturned reports whether the last bundle returned the runtime to lifecycle-manager and the next bundle manages it
// again.
func WasReturned(next bundle.TakeoverPhase, last *bundle.DesiredState) bool {
	return next != bundle.TakeoverRelease && last != nil && IsReleased(*last)
}

// MinimumVersions returns the minimum version of each module in the next bundle. versions are the module versions in
// the last bundle. If the last bundle returned the runtime to lifecycle-manager and the next bundle manages it again,
// only mandatory modules have a minimum version.
func MinimumVersions(
	next bundle.TakeoverPhase, last *bundle.DesiredState, versions map[string]string,
) map[string]string {
	if !WasReturned(next, last) {
		return versions
	}
	mandatory := map[string]string{}
	for i := range last.Manifests {
		if m := &last.Manifests[i]; m.IsMandatory() && versions[m.Module] != "" {
			mandatory[m.Module] = versions[m.Module]
		}
	}
	return mandatory
}

// NotOffered returns the error for an inherited module whose installed version is not in the catalog. err is the lookup
// error.
func (i Inherited) NotOffered(err error) error {
	return reason.Errorf(
		reason.ModuleNotInherited,
		"module %s is not changed and cannot be taken over in version %s: %w; keep that version in the catalog "+
			"until the agent has adopted the module",
		i.Module,
		i.Version,
		err,
	)
}

// UpgradeMessage returns a message about upgrading an inherited module after its adoption.
func (i Inherited) UpgradeMessage(offered string) string {
	return fmt.Sprintf(
		"is taken over in version %s, which lifecycle-manager installed; version %s follows once the runtime has "+
			"reported the module",
		i.Version, offered)
}
