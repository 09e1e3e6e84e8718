package resolve

import (
	"cmp"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
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

// lookupChoice finds the ModuleTemplate of the module in the catalog. The version is the one that a rollout allows or,
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
