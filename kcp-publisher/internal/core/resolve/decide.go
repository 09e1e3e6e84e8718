package resolve

import (
	"fmt"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// decide returns the manifest of one module. If the manifest does not match the request, it also returns the problem. A
// module that cannot be resolved keeps the manifest from the last bundle.
func decide(
	w requested, controlPlane bool, last *bundle.Manifest, contents map[Ref]Content,
) (*bundle.Manifest, *bundle.Problem) {
	if !w.module.Managed && last == nil {
		return w.leftUnmanaged(contents), nil
	}
	if !w.module.Managed {
		return keptUnmanaged(last), nil
	}
	last = reconciled(last)
	if last != nil && bundle.Older(last.Version, w.floor) && w.gate.Undo != w.floor {
		last = nil // the runtime already has a newer version than this manifest
	}
	switch {
	case w.revoked:
		return nil, failure(reason.Of(w.err), "%v; its installed objects are removed", w.err)
	case w.settling:
		return last, nil
	case w.err != nil && w.gate.Held != "" && last != nil && last.Version == w.gate.Version:
		return last, nil // the published manifest works without its ModuleTemplate
	case w.err != nil:
		return last, warning(reason.Of(w.err), "%v", w.err)
	case !controlPlane && w.forControlPlane():
		return last, w.misplaced()
	case w.downgrades():
		return w.keptAtFloor(controlPlane, last, contents), w.olderVersionProblem()
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
		return last,
			failure(reason.ComponentBroken,
				"module %s: component %s:%s changed its content under the same version: release a new version instead",
				w.module.Name, manifest.Component, manifest.Version)
	}
	return manifest, nil
}

// keptAtFloor returns the manifest with which a module keeps its installed version, because the requested version is
// older. If it returns nil, the bundle contains no manifest for the module, and the module does not change.
func (w requested) keptAtFloor(controlPlane bool, last *bundle.Manifest, contents map[Ref]Content) *bundle.Manifest {
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

func keptUnmanaged(last *bundle.Manifest) *bundle.Manifest {
	if last == nil {
		return nil
	}
	kept := *last
	kept.Unmanaged = true
	return &kept
}

func reconciled(last *bundle.Manifest) *bundle.Manifest {
	if last == nil || !last.Unmanaged {
		return last
	}
	again := *last
	again.Unmanaged = false
	return &again
}

func (w *requested) forControlPlane() bool {
	return w.choice.Template.Annotations[v1beta2.AnnotationTarget] == v1beta2.TargetControlPlane
}

// misplaced returns the problem that a module can only be installed in the control plane's own cluster. It returns nil
// for a mandatory module.
func (w *requested) misplaced() *bundle.Problem {
	if w.choice.Mandatory {
		return nil
	}
	return warning(reason.ModuleNotOffered,
		"module %s: ModuleTemplate %s can only be installed in the control plane's own cluster: create a Kyma for "+
			"that cluster and request the module there",
		w.module.Name, w.choice.Template.Name)
}

// downgrades reports whether the requested version is older than the installed version and no rollout rolls the module
// back. If the installed version failed and an older one still runs, a request for the running version is not a
// downgrade.
func (w *requested) downgrades() bool {
	return bundle.Older(w.choice.Version, w.floor) && w.gate.Undo != w.floor && w.choice.Version != w.running
}

// olderVersionProblem returns the problem that the requested version is older than the installed version. The message
// contains the origin of the requested version, such as a channel.
func (w *requested) olderVersionProblem() *bundle.Problem {
	by := fmt.Sprintf("channel %q has %s", w.choice.Channel, w.choice.Version)
	switch {
	case w.inherited != nil:
		by = "lifecycle-manager installed " + w.choice.Version
	case w.choice.Mandatory:
		by = "its mandatory version is " + w.choice.Version
	case w.module.Pin() != "":
		by = "the Kyma pins it to " + w.choice.Version
	}
	return warning(reason.OlderVersionAsked, "module %s stays at version %s: %s, which is older", w.module.Name,
		w.floor, by)
}

// changedInPlace reports whether the content of a component changed although its version did not change.
func changedInPlace(last, next *bundle.Manifest) bool {
	return last != nil && last.Version == next.Version && last.Component == next.Component &&
		!slices.EqualFunc(installedContent(last), installedContent(next), sameBlob)
}

func installedContent(m *bundle.Manifest) []bundle.Content {
	return slices.DeleteFunc(slices.Clone(m.Content), func(c bundle.Content) bool {
		return c.Name == bundle.ContentDefaultCR
	})
}

func sameBlob(a, b bundle.Content) bool { return a.Name == b.Name && a.Digest == b.Digest }

func warning(why reason.Reason, format string, args ...any) *bundle.Problem {
	return &bundle.Problem{State: v1beta2.StateWarning, Reason: why, Message: fmt.Sprintf(format, args...)}
}

func failure(why reason.Reason, format string, args ...any) *bundle.Problem {
	return &bundle.Problem{State: v1beta2.StateError, Reason: why, Message: fmt.Sprintf(format, args...)}
}
