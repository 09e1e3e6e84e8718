package resolve

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
)

func addHeldRemovals(all []requestedModule, request Request) []requestedModule {
	for _, module := range request.HeldRemovals {
		at := slices.IndexFunc(all, func(w requestedModule) bool { return w.module.Name == module })
		if at < 0 {
			at = len(all)
			all = append(
				all,
				requestedModule{
					module: v1beta2.Module{
						Name: module, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
					},
				},
			)
		}
		all[at].module.Managed, all[at].isSettling = true, request.IsSettling
		all[at].err = reason.Errorf(reason.RemovalHeld,
			"module %s: its removal waits for an operator's approval: see `kcp-publisher removals`", module)
	}
	return all
}

// KeptModules returns the modules that the next bundle does not remove from a runtime, sorted. granted contains the
// published versions. KeptModules ignores the decisions of rollouts.
func KeptModules(request Request, snapshot *catalog.Snapshot, granted map[string]string) []string {
	if request.KeepsAllModules() {
		return slices.Sorted(maps.Keys(granted))
	}
	channels := map[string]string{}
	for _, module := range request.Requested.Modules {
		channels[module.Name] = module.Channel
	}
	request.LastState = &bundle.DesiredState{}
	for module, version := range granted {
		channel := channels[module]
		if channel == "" {
			channel = request.Requested.Channel
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
