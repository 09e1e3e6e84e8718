package train

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

const (
	module = "keda"
	week   = 7 * 24 * time.Hour
)

var monday = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(monday.Add(-d)) }

func policy() fleet.PromotionPolicy {
	p := fleet.PromotionPolicy{Spec: fleet.PromotionPolicySpec{
		Modules: []string{module}, PromoteBy: fleet.PromoteByPublisher,
		Channels: []fleet.TrainChannel{
			{Name: "dev", After: &metav1.Duration{Duration: 24 * time.Hour}, MinRuntimes: 2},
			{Name: "fast", After: &metav1.Duration{Duration: week}, MinRuntimes: 3, MaxFailurePercent: 10},
			{Name: "regular"},
		},
	}}
	p.Name = "train"
	return p
}

func metaOf(dev, fast, regular string) v1beta2.ModuleReleaseMeta {
	m := v1beta2.ModuleReleaseMeta{Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: module}}
	m.Name = module
	for _, c := range []v1beta2.ChannelVersion{
		{Channel: "dev", Version: dev}, {Channel: "fast", Version: fast}, {Channel: "regular", Version: regular},
	} {
		if c.Version != "" {
			m.Spec.Channels = append(m.Spec.Channels, c)
		}
	}
	return m
}

func template(version string) v1beta2.ModuleTemplate {
	t := v1beta2.ModuleTemplate{Spec: v1beta2.ModuleTemplateSpec{ModuleName: module, Version: version}}
	t.Name = module + "-" + version
	return t
}

func rolloutOf(channel, version string, revision int64, state fleet.RolloutState, finished metav1.Time) fleet.Rollout {
	track := rollout.Track{Module: module, Channel: channel}
	r := fleet.Rollout{
		Spec: fleet.RolloutSpec{Module: module, Channel: channel, Revision: revision, From: "0.9.0", To: version},
	}
	r.Name, r.Status.State = rollout.ObjectName(track, revision), state
	if rollout.IsFinished(state) {
		r.Status.FinishedAt = &finished
	}
	return r
}

// ready returns counts with this number of ready runtimes for each channel.
func ready(meta v1beta2.ModuleReleaseMeta, runtimes int32) Fleet {
	all := Fleet{}
	for _, c := range meta.Spec.Channels {
		all[rollout.Track{Module: module, Channel: c.Channel}] = Counts{Version: c.Version, Ready: runtimes}
	}
	return all
}

// due returns a control plane in which the promotion of keda 1.8.0 from channel fast to channel regular is due.
func due() Input {
	p := policy()
	p.Status.Modules = []fleet.ModuleTrain{{Name: module, Versions: []fleet.TrainVersion{
		{Channel: "dev", Version: "1.8.0", Since: ago(2 * week)},
		{Channel: "fast", Version: "1.8.0", Since: ago(8 * 24 * time.Hour)},
		{Channel: "regular", Version: "1.7.0", Since: ago(5 * week)},
	}}}
	meta := metaOf("1.8.0", "1.8.0", "1.7.0")
	return Input{
		Policies: []fleet.PromotionPolicy{p},
		Metas:    []v1beta2.ModuleReleaseMeta{meta},
		Templates: []v1beta2.ModuleTemplate{
			template("1.7.0"),
			template("1.8.0"),
			template("1.9.0"),
		},
		Fleet: ready(meta, 5),
		Now:   monday,
	}
}

func entry(t testing.TB, out Outcome, channel string) fleet.TrainVersion {
	t.Helper()
	for _, m := range out.Status.Modules {
		for _, v := range m.Versions {
			if v.Channel == channel {
				return v
			}
		}
	}
	t.Fatalf("channel %s has no entry in %+v", channel, out.Status)
	return fleet.TrainVersion{}
}

func weekOld(channel, version string) fleet.TrainVersion {
	return fleet.TrainVersion{Channel: channel, Version: version, Since: ago(week)}
}

// freezeUntil returns a calendar with a freeze in the time zone Europe/Berlin.
func freezeUntil(until string) *fleet.PromotionCalendar {
	return &fleet.PromotionCalendar{
		TimeZone: "Europe/Berlin", Freezes: []fleet.Freeze{{Name: "fair", From: "2026-11-20", Until: until}},
	}
}

// stuckInFast changes the result of due. Channel dev has the newer version 1.9.0. Channel fast has had version 1.8.0
// since the given time, but too few of its runtimes run this version.
func stuckInFast(in *Input, since time.Duration) {
	in.Metas[0] = metaOf("1.9.0", "1.8.0", "1.7.0")
	in.Fleet = ready(in.Metas[0], 5)
	in.Fleet[inFast] = Counts{Version: "1.8.0", Ready: 2}
	in.Policies[0].Status.Modules[0].Versions[0] = weekOld("dev", "1.9.0")
	in.Policies[0].Status.Modules[0].Versions[1].Since = ago(since)
}
