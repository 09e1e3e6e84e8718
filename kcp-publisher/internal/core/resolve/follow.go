package resolve

import (
	"cmp"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Follow is a requested module that follows a channel. Version is the channel's current version.
type Follow struct{ Module, Channel, Version string }

// Follows returns the requested modules that follow a channel. It includes a module even if its version has no
// ModuleTemplate.
func Follows(request Request, snapshot *catalog.Snapshot) []Follow {
	if request.Deleting {
		return nil
	}
	var all []Follow
	kyma := labels.Set(request.Labels)
	for _, module := range request.Asked.Modules {
		if !module.Managed || module.Pin() != "" {
			continue
		}
		channel, snapshot := cmp.Or(module.Channel, request.Asked.Channel), snapshot.ProvidedBy(module.ControllerName)
		version, err := snapshot.Offered(module.Name, channel, kyma)
		if err != nil {
			continue
		}
		choice, err := snapshot.At(module.Name, channel, version, kyma)
		if err == nil && !request.ControlPlane &&
			choice.Template.Annotations[v1beta2.AnnotationTarget] == v1beta2.TargetControlPlane {
			continue
		}
		all = append(all, Follow{Module: module.Name, Channel: channel, Version: version})
	}
	return all
}

// lookup finds the module in the catalog, in the version that the channel offers or that a rollout allows.
func (w *requested) lookup(request Request, snapshot *catalog.Snapshot, channel string) {
	gate, gated := request.Gates[rollout.Track{Module: w.module.Name, Channel: channel}]
	if !gated {
		w.choice, w.err = snapshot.Lookup(w.module.Name, channel, request.Labels)
		w.version = snapshot.Channel(w.module.Name, channel)
		return
	}
	w.gate, w.version = gate, gate.Version
	w.choice, w.err = snapshot.At(w.module.Name, channel, gate.Version, request.Labels)
	if gate.Try != "" {
		w.tried = &requested{module: w.module, gate: rollout.Decision{Version: gate.Try}, version: gate.Try}
		w.tried.choice, w.tried.err = snapshot.At(w.module.Name, channel, gate.Try, request.Labels)
	}
}
