package resolve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// decideManifest returns one module's manifest for the next bundle. A module that cannot be resolved keeps the manifest
// from the last bundle. If the manifest does not match the request, decideManifest also returns the reason as a
// Problem.
func decideManifest(
	module requestedModule, controlPlane bool, lastManifest *bundle.Manifest, contents map[ComponentRef]Content,
) (*bundle.Manifest, *bundle.Problem) {
	if !module.module.Managed && lastManifest == nil {
		return module.unmanagedInherited(contents), nil
	}
	if !module.module.Managed {
		return unmanagedManifest(lastManifest), nil
	}
	lastManifest = managedManifest(lastManifest)
	if lastManifest != nil && bundle.IsOlder(lastManifest.Version, module.minVersion) &&
		module.gate.ReplacedVersion != module.minVersion {
		lastManifest = nil // the runtime already has a newer version than this manifest
	}
	switch {
	case module.isRevoked:
		return nil, newFailure(reason.Of(module.err), "%v; its installed objects are removed", module.err)
	case module.isSettling:
		return lastManifest, nil
	case module.err != nil && module.gate.HeldReason != "" && lastManifest != nil &&
		lastManifest.Version == module.gate.Version:
		return lastManifest, nil // keep the published manifest, because it works without its ModuleTemplate
	case module.err != nil:
		return lastManifest, newWarning(reason.Of(module.err), "%v", module.err)
	case !controlPlane && module.isForControlPlane():
		return lastManifest, module.placementProblem()
	case module.isDowngrade():
		return module.keptManifest(controlPlane, lastManifest, contents), module.olderVersionProblem()
	}
	content, known := contents[componentRef(module.choice)]
	if !known {
		content.Err = fmt.Errorf("component %s:%s was not read", module.choice.Component, module.choice.Version)
	}
	manifest, err := newManifest(module, content)
	if err != nil {
		return lastManifest, newFailure(reason.Of(err), "module %s: %v", module.module.Name, err)
	}
	if isContentChanged(lastManifest, manifest) {
		return lastManifest,
			newFailure(reason.ComponentBroken,
				"module %s: component %s:%s changed its content under the same version: release a new version instead",
				module.module.Name, manifest.Component, manifest.Version)
	}
	return manifest, nil
}

// keptManifest returns the manifest of the installed version if the requested version of a module is older. If it
// returns nil, the bundle does not contain the module, and the module in the runtime does not change.
func (w requestedModule) keptManifest(
	controlPlane bool, last *bundle.Manifest, contents map[ComponentRef]Content,
) *bundle.Manifest {
	if last != nil || w.keptChoice == nil {
		return last
	}
	w.choice = *w.keptChoice
	content, known := contents[componentRef(w.choice)]
	if !known || !controlPlane && w.isForControlPlane() {
		return nil
	}
	manifest, err := newManifest(w, content)
	if err != nil {
		return nil
	}
	return manifest
}

func unmanagedManifest(last *bundle.Manifest) *bundle.Manifest {
	if last == nil {
		return nil
	}
	kept := *last
	kept.Unmanaged = true
	return &kept
}

func managedManifest(last *bundle.Manifest) *bundle.Manifest {
	if last == nil || !last.Unmanaged {
		return last
	}
	again := *last
	again.Unmanaged = false
	return &again
}

func (w *requestedModule) isForControlPlane() bool {
	return w.choice.Template.Annotations[v1beta2.AnnotationTarget] == v1beta2.TargetControlPlane
}

// placementProblem returns a Problem if a module can be installed only in the control plane's own cluster, and the
// runtime is a different cluster. For a mandatory module, it returns nil.
func (w *requestedModule) placementProblem() *bundle.Problem {
	if w.choice.Mandatory {
		return nil
	}
	return newWarning(reason.ModuleNotOffered,
		"module %s: ModuleTemplate %s can only be installed in the control plane's own cluster: create a Kyma for "+
			"that cluster and request the module there",
		w.module.Name, w.choice.Template.Name)
}

// isDowngrade reports whether the requested version is older than the installed version, except during a rollback. If
// the installed version failed and an older one still runs, a request for the running version is not a downgrade.
func (w *requestedModule) isDowngrade() bool {
	return bundle.IsOlder(w.choice.Version, w.minVersion) && w.gate.ReplacedVersion != w.minVersion &&
		w.choice.Version != w.runningVersion
}

// WithoutOutdatedRollbacks returns the request without the rollbacks that a later rollout has ended. After a restore
// from a backup, the Kyma's status and the Rollouts are older than the runtime, which may have the replaced version
// again. published contains the module versions in the status.
func (r Request) WithoutOutdatedRollbacks(published map[string]string) Request {
	gates := maps.Clone(r.Gates)
	for track, d := range gates {
		if d.ReplacedVersion != "" && d.ReplacedVersion == r.Versions[track.Module] &&
			d.ReplacedVersion != published[track.Module] {
			d.ReplacedVersion = ""
			gates[track] = d
		}
	}
	r.Gates = gates
	return r
}

// olderVersionProblem returns the Problem for a requested version that is older than the installed version. The message
// contains the source of the requested version, such as a channel.
func (w *requestedModule) olderVersionProblem() *bundle.Problem {
	by := fmt.Sprintf("channel %q has %s", w.choice.Channel, w.choice.Version)
	switch {
	case w.inherited != nil:
		by = "lifecycle-manager installed " + w.choice.Version
	case w.choice.Mandatory:
		by = "its mandatory version is " + w.choice.Version
	case w.module.Pin() != "":
		by = "the Kyma pins it to " + w.choice.Version
	}
	return newWarning(reason.OlderVersionAsked, "module %s stays at version %s: %s, which is older", w.module.Name,
		w.minVersion, by)
}

// isContentChanged reports whether a component's content changed although its version did not change.
func isContentChanged(last, next *bundle.Manifest) bool {
	return last != nil && last.Version == next.Version && last.Component == next.Component &&
		!slices.EqualFunc(installedContent(last), installedContent(next), isSameBlob)
}

func installedContent(m *bundle.Manifest) []bundle.Content {
	return slices.DeleteFunc(slices.Clone(m.Content), func(c bundle.Content) bool {
		return c.Name == bundle.ContentDefaultCR
	})
}

func isSameBlob(a, b bundle.Content) bool { return a.Name == b.Name && a.Digest == b.Digest }

func newWarning(why reason.Reason, format string, args ...any) *bundle.Problem {
	return &bundle.Problem{State: v1beta2.StateWarning, Reason: why, Message: fmt.Sprintf(format, args...)}
}

func newFailure(why reason.Reason, format string, args ...any) *bundle.Problem {
	return &bundle.Problem{State: v1beta2.StateError, Reason: why, Message: fmt.Sprintf(format, args...)}
}
