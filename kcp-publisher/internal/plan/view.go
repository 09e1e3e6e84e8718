package plan

import (
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/rollout"
)

// View is what Kymas are resolved by: a catalog, and the gates that were decided with exactly that catalog. It does not change.
type View struct {
	Catalog *catalog.Snapshot
	Gates   rollout.Gates
}

// Decisions returns what gates say to a runtime where they say anything: for what it follows, for what leaves it, and, if it may choose
// by itself, for all that it may choose.
func (v *View) Decisions(runtime string, request resolve.Request, known *v1beta2.RuntimeStatus) map[rollout.Track]rollout.Decision {
	if len(v.Gates) == 0 {
		return nil
	}
	versions := versionsOf(known)
	decisions := map[rollout.Track]rollout.Decision{}
	ask := func(track rollout.Track, offered string) {
		if gate := v.Gates[track]; gate != nil {
			if d := gate.Decide(runtime, versions[track.Module]); d != (rollout.Decision{Version: offered}) {
				decisions[track] = d
			}
		}
	}
	for _, follow := range resolve.Follows(request, v.Catalog) {
		ask(rollout.Track{Module: follow.Module, Channel: follow.Channel}, follow.Version)
	}
	for _, leaving := range request.Leaving {
		ask(rollout.Track{Module: leaving.Name, Channel: leaving.Channel}, "")
	}
	if request.Settings.Autonomy == bundle.AutonomyCatalog {
		for track := range v.Gates {
			if offered, err := v.Catalog.Offered(track.Module, track.Channel, request.Labels); err == nil {
				ask(track, offered)
			}
		}
	}
	return decisions
}

// Given returns which rollouts gave the modules of a bundle their versions. A module that does not resolve keeps its version without being in
// the bundle, and so what is known of that version.
func (v *View) Given(runtime string, published Published, known *v1beta2.RuntimeStatus) map[string]v1beta2.GivenVersion {
	var before *v1beta2.PublishedBundle
	if known != nil {
		before = known.Published
	}
	given := v.Gates.Given(runtime, published.State.Manifests, before, published.Predicate.IssuedAt)
	if before == nil {
		return given
	}
	resolved := resolve.Versions(published.State)
	for module, known := range before.Given {
		if _, there := resolved[module]; there || published.Versions[module] != before.Versions[module] {
			continue
		}
		if given == nil {
			given = map[string]v1beta2.GivenVersion{}
		}
		given[module] = known
	}
	return given
}

// Differs reports whether the gates of two views decide otherwise for a runtime.
func (v *View) Differs(other *View, runtime string, follows []resolve.Follow, known *v1beta2.RuntimeStatus) bool {
	versions := versionsOf(known)
	for _, follow := range follows {
		track := rollout.Track{Module: follow.Module, Channel: follow.Channel}
		if !v.Gates[track].Equal(other.Gates[track], runtime, versions[follow.Module]) {
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
