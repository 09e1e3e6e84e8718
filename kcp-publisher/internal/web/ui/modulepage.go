package ui

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const (
	maxVersions = 40
	maxModules  = 300
)

type moduleView struct {
	*fleet.Module
	Channels []channelVersion
	Versions []versionView
	Total    int
	More     int
}

type channelVersion struct {
	Channel, Version string
	// Held is the unfinished or stopped rollout that delays the version in some runtimes, or nil.
	Held *fleet.Rollout
}

// activeRollout returns the newest rollout of a module in a channel, or nil if that rollout is for another version or
// has succeeded.
func activeRollout(all []fleet.Rollout, module, channel, version string) *fleet.Rollout {
	var newest *fleet.Rollout
	for i := range all {
		r := &all[i]
		if r.Spec.Module == module && r.Spec.Channel == channel && r.Spec.To != v1alpha1.VersionRemoved &&
			(newest == nil || r.Spec.Revision > newest.Spec.Revision) {
			newest = r
		}
	}
	if newest == nil || newest.Spec.To != version || newest.Status.State == v1alpha1.RolloutSucceeded {
		return nil
	}
	return newest
}

// versionView counts the runtimes with one version of a module.
type versionView struct {
	Version string
	Total   int
	// Bar shows the runtimes with this version by state.
	Bar    []segment
	States []stateCount
	// Offered lists the channels with this version.
	Offered []string
	Address string
}

type stateCount struct {
	State   v1beta2.State
	Count   int
	Address string
}

func (p *pages) modules(w http.ResponseWriter, r pageRequest) {
	all := make([]moduleView, 0, len(r.fleet.Modules))
	for i := range r.fleet.Modules {
		all = append(all, viewModule(&r.fleet.Modules[i], r.fleet.Rollouts))
	}
	more := max(0, len(all)-maxModules)
	body := struct {
		Modules []moduleView
		More    int
	}{all[:len(all)-more], more}
	p.render(w, r, "modules", http.StatusOK, frame{Title: "Modules", Section: "modules", Live: true, Body: body})
}

func viewModule(m *fleet.Module, rollouts []fleet.Rollout) moduleView {
	v := moduleView{Module: m}
	for _, channel := range slices.Sorted(maps.Keys(m.Channels)) {
		v.Channels = append(v.Channels, channelVersion{
			channel, m.Channels[channel], activeRollout(rollouts, m.Name, channel, m.Channels[channel]),
		})
	}
	for _, version := range m.Versions {
		for _, n := range version.States {
			v.Total += n
		}
	}
	for _, version := range m.Versions {
		v.Versions = append(v.Versions, viewVersion(m, version, v.Total))
	}
	v.More = max(0, len(v.Versions)-maxVersions)
	v.Versions = v.Versions[:len(v.Versions)-v.More]
	return v
}

func viewVersion(m *fleet.Module, version fleet.ModuleVersion, total int) versionView {
	asked := query{Module: m.Name, Version: valueName(version.Version)}
	one := versionView{Version: version.Version, Address: asked.address()}
	for state, n := range version.States {
		one.Total += n
		one.States = append(one.States, stateCount{state, n, asked.With("state", string(state))})
	}
	slices.SortFunc(one.States, func(a, b stateCount) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.State, b.State))
	})
	parts := make([]segment, len(one.States))
	for i, s := range one.States {
		parts[i] = segment{Tone: stateTone(s.State), Name: string(s.State), Count: int32(min(s.Count, 1<<30))}
	}
	one.Bar = segments(int32(min(total, 1<<30)), parts...)
	for channel, offered := range m.Channels {
		if offered == version.Version {
			one.Offered = append(one.Offered, channel)
		}
	}
	slices.Sort(one.Offered)
	return one
}
