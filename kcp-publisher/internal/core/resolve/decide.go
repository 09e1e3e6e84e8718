package resolve

import (
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// decide returns what a runtime gets of one module, with what it got last, and why that is not what it asks for. What
// cannot be resolved keeps its last manifest.
func decide(w wish, controlPlane bool, last *bundle.Manifest, contents map[Ref]Content) (*bundle.Manifest, *bundle.Problem) {
	if !w.module.Managed && last == nil {
		return w.leftUnmanaged(contents), nil
	}
	if !w.module.Managed {
		return keptUnmanaged(last), nil
	}
	last = reconciled(last)
	if last != nil && bundle.Older(last.Version, w.floor) && w.gate.Undo != w.floor {
		last = nil // the runtime has a newer one, by what is known besides
	}
	switch {
	case w.revoked:
		return nil, failure(reason.Of(w.err), "%v; what is installed of it is removed", w.err)
	case w.settling:
		return last, nil
	case w.err != nil && w.gate.Held != "" && last != nil && last.Version == w.gate.Version:
		return last, nil // its template is gone; what was published of it is not
	case w.err != nil:
		return last, warning(reason.Of(w.err), "%v", w.err)
	case !controlPlane && w.forControlPlane():
		return last, w.misplaced()
	case w.downgrades():
		return w.keptAtFloor(controlPlane, last, contents), w.stays()
	}
	content, known := contents[refOf(w.choice)]
	if !known {
		content.Err = fmt.Errorf("component %s:%s was not read", w.choice.Component, w.choice.Version)
	}
	manifest, err := newManifest(w, content)
	if err != nil {
		return last, failure(reason.Of(err), "module %s: %v", w.module.Name, err)
	}
	if changedInPlace(last, manifest) {
		return last, failure(reason.ComponentBroken, "module %s: component %s:%s changed its content under the same version: release a new version instead", w.module.Name, manifest.Component, manifest.Version)
	}
	return manifest, nil
}

// keptAtFloor returns the manifest of a module whose choice is older than what the runtime has: the last one, or where
// that is older too, what the catalog has of the version in the runtime; nil leaves it there as it is.
func (w wish) keptAtFloor(controlPlane bool, last *bundle.Manifest, contents map[Ref]Content) *bundle.Manifest {
	if last != nil || w.kept == nil {
		return last
	}
	w.choice = *w.kept
	content, known := contents[refOf(w.choice)]
	if !known || !controlPlane && w.forControlPlane() {
		return nil
	}
	manifest, err := newManifest(w, content)
	if err != nil {
		return nil
	}
	return manifest
}

// keptUnmanaged returns the last manifest of a module that is to be left as it is, nil when there is none.
func keptUnmanaged(last *bundle.Manifest) *bundle.Manifest {
	if last == nil {
		return nil
	}
	kept := *last
	kept.Unmanaged = true
	return &kept
}

// reconciled returns the last manifest of a module as it is reconciled again.
func reconciled(last *bundle.Manifest) *bundle.Manifest {
	if last == nil || !last.Unmanaged {
		return last
	}
	again := *last
	again.Unmanaged = false
	return &again
}

func (w *wish) forControlPlane() bool {
	return w.choice.Template.Annotations[v1beta2.AnnotationTarget] == v1beta2.TargetControlPlane
}

// misplaced says that a module for the control plane is asked for elsewhere; of a mandatory one nobody asked for there
// is nothing to say.
func (w *wish) misplaced() *bundle.Problem {
	if w.choice.Mandatory {
		return nil
	}
	return warning(reason.ModuleNotOffered, "module %s: ModuleTemplate %s is for the control plane and goes into its own cluster only: make a Kyma for that cluster and ask for the module there",
		w.module.Name, w.choice.Template.Name)
}

// downgrades reports whether the choice is older than what the runtime has, and no rollout takes that back. A version
// that runs all the time, because the newer one could not be applied, is none.
func (w *wish) downgrades() bool {
	return bundle.Older(w.choice.Version, w.floor) && w.gate.Undo != w.floor && w.choice.Version != w.running
}

// stays says who asks for an older version than the runtime has.
func (w *wish) stays() *bundle.Problem {
	by := fmt.Sprintf("channel %q has %s", w.choice.Channel, w.choice.Version)
	switch {
	case w.inherited != nil:
		by = "lifecycle-manager installed " + w.choice.Version
	case w.choice.Mandatory:
		by = "its mandatory version is " + w.choice.Version
	case w.module.Pin() != "":
		by = "the Kyma pins it to " + w.choice.Version
	}
	return warning(reason.OlderVersionAsked, "module %s: stays at version %s: %s, which is older", w.module.Name, w.floor, by)
}

// changedInPlace reports whether content changed under the same version: that is another release than the one that was
// published.
func changedInPlace(last, next *bundle.Manifest) bool {
	return last != nil && last.Version == next.Version && last.Component == next.Component && !slices.EqualFunc(last.Content, next.Content, sameBlob)
}

func sameBlob(a, b bundle.Content) bool { return a.Name == b.Name && a.Digest == b.Digest }

func warning(why reason.Reason, format string, args ...any) *bundle.Problem {
	return &bundle.Problem{State: v1beta2.StateWarning, Reason: why, Message: fmt.Sprintf(format, args...)}
}

func failure(why reason.Reason, format string, args ...any) *bundle.Problem {
	return &bundle.Problem{State: v1beta2.StateError, Reason: why, Message: fmt.Sprintf(format, args...)}
}
