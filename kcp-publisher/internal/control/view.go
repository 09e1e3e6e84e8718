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

// decisions gives what gates say to a runtime where they say anything: for what it follows, for what leaves it, and, if it may choose
// by itself, for all that it may choose.
func (v *View) decisions(runtime string, request resolve.Request, known *v1beta2.RuntimeStatus) map[rollout.Track]rollout.Decision {
	if len(v.gates) == 0 {
		return nil
	}
	versions := versionsOf(known)
	decisions := map[rollout.Track]rollout.Decision{}
	ask := func(track rollout.Track, offered string) {
		if gate := v.gates[track]; gate != nil {
			if d := gate.Decide(runtime, versions[track.Module]); d != (rollout.Decision{Version: offered}) {
				decisions[track] = d
			}
		}
	}
	for _, follow := range resolve.Follows(request, v.catalog) {
		ask(rollout.Track{Module: follow.Module, Channel: follow.Channel}, follow.Version)
	}
	for _, leaving := range request.Leaving {
		ask(rollout.Track{Module: leaving.Name, Channel: leaving.Channel}, "")
	}
	if request.Settings.Autonomy == bundle.AutonomyCatalog {
		for track := range v.gates {
			if offered, err := v.catalog.Offered(track.Module, track.Channel, request.Labels); err == nil {
				ask(track, offered)
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
