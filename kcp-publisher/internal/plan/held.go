package plan

import (
	"cmp"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rollout"
)

// Held says of the modules that a Kyma follows by a channel which rollout keeps a version from it, by module.
func Held(kyma *v1beta2.Kyma, rollouts []fleet.Rollout) map[string]string {
	byTrack := map[rollout.Track][]*fleet.Rollout{}
	for i := range rollouts {
		track := rollout.Track{Module: rollouts[i].Spec.Module, Channel: rollouts[i].Spec.Channel}
		byTrack[track] = append(byTrack[track], &rollouts[i])
	}
	request, err := asked(kyma)
	if err != nil {
		return nil // nothing is published to it, and that is its trouble
	}
	held := map[string]string{}
	for _, module := range request.Asked.Modules {
		if !module.Managed || module.Pin() != "" {
			continue
		}
		newest := rollout.Newest(byTrack[rollout.Track{Module: module.Name, Channel: cmp.Or(module.Channel, request.Asked.Channel)}])
		if newest == nil {
			continue
		}
		if why := rollout.WhyHeld(newest, observed(kyma, RuntimeID(kyma), module.Name, Hearing{At: Heard(kyma)})); why != "" {
			held[module.Name] = why
		}
	}
	return held
}
