// Package phase decides the takeover phase in a Kyma's bundles. Its inputs are the Kyma's label and annotation, the
// record of lifecycle-manager's modules, and the runtime's report. All of it is pure. The core packages call it; it
// imports none of them.
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

// Of returns the phase of a Kyma's takeover from lifecycle-manager. It is empty without a takeover, and for a deleted
// Kyma.
func Of(kyma *v1beta2.Kyma) (bundle.TakeoverPhase, error) {
	if kyma.Labels[v1beta2.LabelTakeover] != v1beta2.TakeoverActive || !kyma.DeletionTimestamp.IsZero() {
		return "", nil
	}
	switch phase := bundle.TakeoverPhase(cmp.Or(kyma.Annotations[v1beta2.AnnotationTakeoverPhase],
		string(bundle.TakeoverAdopt))); phase {
	case bundle.TakeoverAdopt, bundle.TakeoverClean, bundle.TakeoverRelease:
		return phase, nil
	default:
		return "",
			reason.Errorf(reason.AnnotationInvalid, "annotation %s: %q: want %s, %s or %s",
				v1beta2.AnnotationTakeoverPhase, bundle.Bounded(string(phase), bundle.MaxMessageBytes),
				bundle.TakeoverAdopt, bundle.TakeoverClean, bundle.TakeoverRelease)
	}
}

// Inherited is a module that lifecycle-manager installed in a runtime.
type Inherited struct {
	Module, Channel, Version string
	// Unmanaged is true if lifecycle-manager had left the objects to their users.
	Unmanaged bool
	// Objects are the installed objects, in the order of bundle.SortObjects.
	Objects []bundle.ObjectRef
}

// Asked is a takeover's part in the request of a runtime.
type Asked struct {
	Phase bundle.TakeoverPhase
	// Inherited are the modules that lifecycle-manager installed and that the agent has not adopted yet, by name.
	Inherited []Inherited
	// Unheard is true until the runtime has reported in this takeover. Until then its own Kyma's spec is unknown, so
	// the runtime keeps its modules: the spec in the control plane may be years old, and an earlier report may be from
	// before an aborted takeover.
	Unheard bool
}

// Ask returns the takeover's part in the request of a Kyma's runtime.
func Ask(kyma *v1beta2.Kyma) (Asked, error) {
	phase, err := Of(kyma)
	if phase == "" || err != nil {
		return Asked{}, err
	}
	asked := Asked{Phase: phase}
	s := kyma.Status.Runtime
	if s == nil || s.Takeover == nil {
		return asked,
			fmt.Errorf(
				"label %s: the objects of lifecycle-manager are not known yet: only `kcp-publisher run` takes over",
				v1beta2.LabelTakeover)
	}
	switch {
	case phase == bundle.TakeoverRelease:
	case (s.Requested == nil || !s.Takeover.Heard) && kyma.Labels[v1beta2.LabelSync] != v1beta2.False:
		asked.Unheard = true
	default:
		asked.Inherited = inherited(s.Takeover)
	}
	return asked, nil
}

// inherited returns the modules that lifecycle-manager installed and that the runtime has not reported as its agent's.
func inherited(status *v1beta2.TakeoverStatus) (all []Inherited) {
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

// Finished reports whether a Kyma was taken over, while lifecycle-manager may still run.
func Finished(kyma *v1beta2.Kyma) bool {
	return kyma.Labels[v1beta2.LabelTakeover] == v1beta2.TakeoverFinished
}

// Released reports whether a bundle gives the runtime back to lifecycle-manager, which continues with its versions.
func Released(state bundle.DesiredState) bool { return state.Takeover == bundle.TakeoverRelease }

// Returned reports whether the last bundle gave the runtime back to lifecycle-manager, and the next one does not.
func Returned(next bundle.TakeoverPhase, last *bundle.DesiredState) bool {
	return next != bundle.TakeoverRelease && last != nil && Released(*last)
}

// Floors returns the versions of the last bundle that count as given to the runtime. A bundle that gave the runtime
// back can name versions that the runtime never had, because they waited for a window: of these, only mandatory modules
// count, which do not wait.
func Floors(next bundle.TakeoverPhase, last *bundle.DesiredState, versions map[string]string) map[string]string {
	if !Returned(next, last) {
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

// NotOffered returns the problem of an inherited module whose installed version the catalog does not offer.
func (i Inherited) NotOffered(err error) error {
	return reason.Errorf(
		reason.ModuleNotInherited,
		"module %s: stays as lifecycle-manager installed it, and cannot be taken over in version %s: %w; offer that "+
			"version until the runtime has it from its agent",
		i.Module,
		i.Version,
		err,
	)
}

// Follows returns a message about the version that an inherited module gets after its adoption.
func (i Inherited) Follows(offered string) string {
	return fmt.Sprintf(
		"is taken over in version %s, which lifecycle-manager installed; %s follows once the runtime has reported it",
		i.Version, offered)
}
