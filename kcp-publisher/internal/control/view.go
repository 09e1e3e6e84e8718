package control

import (
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rollout"
)

// View is what Kymas are resolved by: a catalog, and the gates that were decided with exactly that catalog. It does not change.
type View struct {
	catalog *catalog.Snapshot
	gates   rollout.Gates
}

// decisions gives what gates say to a runtime, by module, where they say anything.
func (v *View) decisions(runtime string, request resolve.Request, known *v1beta2.RuntimeStatus) map[string]rollout.Decision {
	if len(v.gates) == 0 {
		return nil
	}
	versions := versionsOf(known)
	decisions := map[string]rollout.Decision{}
	for _, follow := range resolve.Follows(request, v.catalog) {
		gate := v.gates[rollout.Track{Module: follow.Module, Channel: follow.Channel}]
		if gate == nil {
			continue
		}
		if d := gate.Decide(runtime, versions[follow.Module]); d != (rollout.Decision{Version: follow.Version}) {
			decisions[follow.Module] = d
		}
	}
	for _, leaving := range request.Leaving {
		if gate := v.gates[rollout.Track{Module: leaving.Name, Channel: leaving.Channel}]; gate != nil {
			decisions[leaving.Name] = gate.Decide(runtime, versions[leaving.Name])
		}
	}
	return decisions
}

// offers gives what gates say about all that a runtime with autonomy may choose: nobody chooses what a rollout still keeps from them.
func (v *View) offers(runtime string, request resolve.Request, known *v1beta2.RuntimeStatus) map[rollout.Track]rollout.Decision {
	if len(v.gates) == 0 || request.Settings.Autonomy != bundle.AutonomyCatalog {
		return nil
	}
	versions := versionsOf(known)
	decisions := map[rollout.Track]rollout.Decision{}
	for module, channels := range v.catalog.Offers(request.Labels) {
		for _, channel := range channels {
			track := rollout.Track{Module: module, Channel: channel}
			if gate := v.gates[track]; gate != nil {
				decisions[track] = gate.Decide(runtime, versions[module])
			}
		}
	}
	return decisions
}

// given says which rollouts gave the modules of a bundle their versions.
func (v *View) given(runtime string, published publish.Published, known *v1beta2.RuntimeStatus) map[string]v1beta2.GivenVersion {
	var before *v1beta2.PublishedBundle
	if known != nil {
		before = known.Published
	}
	return v.gates.Given(runtime, published.State.Manifests, before, published.Predicate.IssuedAt)
}

// differs tells whether the gates of two views decide otherwise for a runtime.
func (v *View) differs(other *View, runtime string, follows []resolve.Follow, known *v1beta2.RuntimeStatus) bool {
	versions := versionsOf(known)
	for _, follow := range follows {
		track := rollout.Track{Module: follow.Module, Channel: follow.Channel}
		if !v.gates[track].Equal(other.gates[track], runtime, versions[follow.Module]) {
			return true
		}
	}
	return false
}

func versionsOf(known *v1beta2.RuntimeStatus) map[string]string {
	if known == nil || known.Published == nil {
		return nil
	}
	return known.Published.Versions
}
