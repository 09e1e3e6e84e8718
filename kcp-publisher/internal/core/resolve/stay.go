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

func addHeldRemovals(all []requested, request Request) []requested {
	for _, module := range request.Staying {
		at := slices.IndexFunc(all, func(w requested) bool { return w.module.Name == module })
		if at < 0 {
			at = len(all)
			all = append(
				all,
				requested{
					module: v1beta2.Module{
						Name: module, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
					},
				},
			)
		}
		all[at].module.Managed, all[at].settling = true, request.Settling
		all[at].err = reason.Errorf(reason.RemovalHeld,
			"module %s: its removal waits for an operator's approval: see `kcp-publisher removals`", module)
	}
	return all
}

// Keeps returns the modules that the next bundle does not remove from a runtime, sorted. granted contains the published
// versions. Keeps does not consider rollouts.
func Keeps(request Request, snapshot *catalog.Snapshot, granted map[string]string) []string {
	if request.KeepsAll() {
		return slices.Sorted(maps.Keys(granted))
	}
	channels := map[string]string{}
	for _, module := range request.Asked.Modules {
		channels[module.Name] = module.Channel
	}
	request.Last = &bundle.DesiredState{}
	for module, version := range granted {
		channel := channels[module]
		if channel == "" {
			channel = request.Asked.Channel
		}
		if _, err := snapshot.At(module, channel, version, labels.Set(request.Labels)); err != nil &&
			!catalog.Hidden(err) {
			channel = "" // no channel, because the Kyma may have pinned the version
		}
		request.Last.Manifests = append(request.Last.Manifests, bundle.Manifest{
			Module: module, Channel: channel, Version: version,
		})
	}
	var kept []string
	for _, w := range requestedModules(request, snapshot) {
		if !w.revoked || !w.module.Managed {
			kept = append(kept, w.module.Name)
		}
	}
	return kept
}
