package resolve

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// FollowedChannel is a requested module that follows a channel. Version is the channel's current version.
type FollowedChannel struct{ Module, Channel, Version string }

// FollowedChannels returns the requested modules that follow a channel. It includes a module even if its version has no
// ModuleTemplate.
func FollowedChannels(request Request, snapshot *catalog.Snapshot) []FollowedChannel {
	if request.IsDeleting {
		return nil
	}
	var all []FollowedChannel
	kyma := labels.Set(request.Labels)
	for _, module := range request.Requested.Modules {
		if !module.Managed || module.Pin() != "" {
			continue
		}
		channel, snapshot := cmp.Or(module.Channel, request.Requested.Channel), snapshot.ProvidedBy(module.ControllerName)
		version, err := snapshot.OfferedVersion(module.Name, channel, kyma)
		if err != nil {
			continue
		}
		choice, err := snapshot.LookupVersion(module.Name, channel, version, kyma)
		if err == nil && !request.IsControlPlane &&
			choice.Template.Annotations[v1beta2.AnnotationTarget] == v1beta2.TargetControlPlane {
			continue
		}
		all = append(all, FollowedChannel{Module: module.Name, Channel: channel, Version: version})
	}
	return all
}

// lookupChoice finds the module's ModuleTemplate in the catalog. The version is the one that a rollout allows or,
// without a rollout, the one that the channel offers.
func (w *requestedModule) lookupChoice(request Request, snapshot *catalog.Snapshot, channel string) {
	gate, gated := request.Gates[rollout.Track{Module: w.module.Name, Channel: channel}]
	if !gated {
		w.choice, w.err = snapshot.Lookup(w.module.Name, channel, request.Labels)
		w.version = snapshot.ChannelVersion(w.module.Name, channel)
		return
	}
	w.gate, w.version = gate, gate.Version
	w.choice, w.err = snapshot.LookupVersion(w.module.Name, channel, gate.Version, request.Labels)
	if gate.TriedVersion != "" {
		w.triedModule = &requestedModule{module: w.module, gate: rollout.Decision{Version: gate.TriedVersion},
			version: gate.TriedVersion}
		w.triedModule.choice, w.triedModule.err = snapshot.LookupVersion(w.module.Name, channel, gate.TriedVersion,
			request.Labels)
	}
}

// keptModule returns the list of modules and the module's index in it. If the module is missing, keptModule adds it.
func keptModule(all []requestedModule, module string) ([]requestedModule, int) {
	at := slices.IndexFunc(all, func(w requestedModule) bool { return w.module.Name == module })
	if at >= 0 {
		return all, at
	}
	return append(all, requestedModule{module: v1beta2.Module{
		Name: module, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
	}}), len(all)
}

// addRestored adds the modules that a rollout removed and now restores. It skips a module that the catalog offers to
// the runtime again.
func addRestored(all []requestedModule, request Request, snapshot *catalog.Snapshot) []requestedModule {
	for _, module := range slices.Sorted(maps.Keys(request.RemovalGates)) {
		d := request.RemovalGates[module]
		at := slices.IndexFunc(all, func(w requestedModule) bool { return w.module.Name == module })
		if d.ReplacedVersion == "" || at >= 0 && !all[at].canRestore() {
			continue
		}
		channel := ""
		if at >= 0 && all[at].module.Pin() == "" {
			channel = cmp.Or(all[at].module.Channel, request.Requested.Channel)
		}
		all, at = keptModule(all, module)
		all[at].gate, all[at].version = d, d.Version
		all[at].choice, all[at].err = snapshot.LookupInstalled(module, channel, d.Version)
	}
	return all
}

// canRestore reports whether a rollout can restore a requested module. It can if the catalog hides the module from the
// Kyma, or if the module is not pinned and its lookup failed.
func (w *requestedModule) canRestore() bool {
	return catalog.IsHidden(w.err) || w.err != nil && w.module.Pin() == ""
}

// addHeldRemovals adds the modules whose removal waits for an approval or for a rollout. These modules keep their
// last manifest.
func addHeldRemovals(all []requestedModule, request Request) []requestedModule {
	var at int
	for _, module := range slices.Sorted(maps.Keys(request.WaitingRemovals)) {
		all, at = keptModule(all, module)
		all[at].module.Managed, all[at].isSettling = true, true
		all[at].gate = rollout.Decision{HeldReason: request.WaitingRemovals[module]}
		all[at].err = reason.Errorf(reason.RemovalHeld, "module %s: %s", module, request.WaitingRemovals[module])
	}
	for _, module := range request.HeldRemovals {
		all, at = keptModule(all, module)
		all[at].module.Managed, all[at].isSettling = true, request.IsSettling
		all[at].err = reason.Errorf(reason.RemovalHeld,
			"module %s: its removal waits for an operator's approval: see `kcp-publisher removals`", module)
	}
	return all
}

// KeptModules returns the modules that the next bundle keeps in a runtime, sorted. granted maps modules to their
// published versions. followed maps published modules to their channels, if the channels are known. KeptModules ignores
// rollout decisions.
func KeptModules(request Request, snapshot *catalog.Snapshot, granted, followed map[string]string) []string {
	if request.KeepsAllModules() {
		return slices.Sorted(maps.Keys(granted))
	}
	channels := map[string]string{}
	for _, module := range request.Requested.Modules {
		channels[module.Name] = module.Channel
	}
	request.LastState = &bundle.DesiredState{}
	for module, version := range granted {
		channel, isKnown := followed[module]
		if !isKnown {
			channel = cmp.Or(channels[module], request.Requested.Channel)
		}
		if _, err := snapshot.LookupVersion(module, channel, version, labels.Set(request.Labels)); err != nil &&
			!catalog.IsHidden(err) {
			channel = "" // do not use a channel, because the Kyma may have pinned the version
		}
		request.LastState.Manifests = append(request.LastState.Manifests, bundle.Manifest{
			Module: module, Channel: channel, Version: version,
		})
	}
	var kept []string
	for _, w := range requestedModules(request, snapshot) {
		if !w.isRevoked || !w.module.Managed {
			kept = append(kept, w.module.Name)
		}
	}
	return kept
}

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

// adoptionMessage returns a message about the version that the module gets after the agent has adopted it. It returns
// "" if the version stays the same.
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

// keepLastModules copies the modules from the last bundle to the result. If the runtime has already returned its
// modules to lifecycle-manager, it does nothing.
func (r Result) keepLastModules(request Request) Result {
	if last := request.LastState; last != nil && !phase.WasReturned(request.Takeover, last) {
		r.State.Manifests = append(r.State.Manifests, last.Manifests...)
	}
	maps.Copy(r.Versions, phase.MinimumVersions(request.Takeover, request.LastState, request.Versions))
	maps.Copy(r.Versions, ModuleVersions(r.State))
	r.RequestedNames = slices.Sorted(maps.Keys(r.Versions))
	return r
}
