package resolve

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// addInherited prepares the takeover of the modules that lifecycle-manager installed. Each of them keeps its installed
// version until the agent has adopted it. addInherited also adds installed modules that are not requested, because the
// agent must adopt a module before it can remove it.
func addInherited(all []requestedModule, request Request, snapshot *catalog.Snapshot) []requestedModule {
	for i := range request.Inherited {
		inherited := &request.Inherited[i]
		at, channel := slices.IndexFunc(all, func(w requestedModule) bool { return w.module.Name == inherited.Module }),
			inherited.Channel
		switch {
		case at >= 0 && all[at].choice.Mandatory, at >= 0 && all[at].module.Pin() != "":
			channel = ""
		case at >= 0:
			channel = cmp.Or(all[at].module.Channel, request.Requested.Channel)
		case inherited.Unmanaged:
			continue // an unmanaged module stays unmanaged if it is not requested
		default:
			at = len(all)
			all = append(all, requestedModule{
				module: v1beta2.Module{
					Name: inherited.Module, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
				},
			})
		}
		w := &all[at]
		if w.err == nil {
			w.offeredVersion = w.choice.Version
		}
		w.inherited, w.gate = inherited, rollout.Decision{}
		if w.choice, w.err = snapshot.LookupInstalled(inherited.Module, channel, inherited.Version); w.err != nil {
			w.err = inherited.NotOffered(w.err)
		}
	}
	return all
}

// unmanagedInherited returns the manifest of a module that lifecycle-manager installed and that is now unmanaged. It
// returns nil if the module's version is unknown.
func (w requestedModule) unmanagedInherited(contents map[ComponentRef]Content) *bundle.Manifest {
	if w.inherited == nil || w.err != nil {
		return nil
	}
	content, known := contents[componentRef(w.choice)]
	manifest, err := newManifest(w, content)
	if !known || err != nil {
		return nil
	}
	manifest.Unmanaged, manifest.Inherited = true, nil
	return manifest
}

// adoptionMessage returns a message with the version that the module gets after the agent has adopted it. It returns ""
// if the version stays the same.
func (w *requestedModule) adoptionMessage() string {
	if w.inherited == nil || !w.module.Managed || w.offeredVersion == "" || w.offeredVersion == w.inherited.Version {
		return ""
	}
	return w.inherited.UpgradeMessage(w.offeredVersion)
}

func (r Result) withoutModules(request Request) Result {
	r.State.Watchers, r.State.Maintenance = nil, nil
	return r.keepLastModules(request)
}

// keepLastModules copies the modules of the last bundle to the result. It copies none if the runtime has already given
// its modules back to lifecycle-manager.
func (r Result) keepLastModules(request Request) Result {
	if last := request.LastState; last != nil && !phase.WasReturned(request.Takeover, last) {
		r.State.Manifests = append(r.State.Manifests, last.Manifests...)
	}
	maps.Copy(r.Versions, phase.MinimumVersions(request.Takeover, request.LastState, request.Versions))
	maps.Copy(r.Versions, ModuleVersions(r.State))
	r.RequestedNames = slices.Sorted(maps.Keys(r.Versions))
	return r
}
