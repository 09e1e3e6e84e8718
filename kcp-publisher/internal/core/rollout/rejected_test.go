package rollout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Version 2.0.0 was rolled back in channel regular at noon, and channel fast has this version.
func TestRejectionInOneChannelAppliesToAllChannels(t *testing.T) {
	ended := func(channel string, revision int64, state fleet.RolloutState, after time.Duration) fleet.Rollout {
		r := carriedOut(state)
		r.Name = ObjectName(Track{Module: "keda", Channel: channel}, revision)
		r.Spec.Channel, r.Spec.Revision = channel, revision
		r.Status.FinishedAt = &metav1.Time{Time: noon.Add(after)}
		return r
	}
	rollingBack := ended("lts", 1, fleet.RolloutRollingBack, 0)
	rollingBack.Status.FinishedAt = nil
	otherModule := ended("regular", 1, fleet.RolloutRolledBack, 0)
	otherModule.Spec.Module = "serverless"
	for name, c := range map[string]struct {
		rollouts []fleet.Rollout
		want     string
	}{
		"version rolled back in another channel": {
			[]fleet.Rollout{ended("regular", 1, fleet.RolloutRolledBack, 0)}, "keda-regular-1",
		},
		"version succeeded in this channel before": {
			[]fleet.Rollout{
				ended("fast", 1, fleet.RolloutSucceeded, -time.Hour), ended("regular", 1, fleet.RolloutRolledBack, 0),
			}, "keda-regular-1",
		},
		"version succeeded in this channel later": {
			[]fleet.Rollout{
				ended("regular", 1, fleet.RolloutRolledBack, 0), ended("fast", 1, fleet.RolloutSucceeded, time.Hour),
			}, "",
		},
		"version succeeded in the other channel later": {
			[]fleet.Rollout{
				ended("regular", 1, fleet.RolloutRolledBack, 0), ended("regular", 2, fleet.RolloutSucceeded, time.Hour),
			}, "",
		},
		"version rolled back in this channel, too": {
			[]fleet.Rollout{
				ended("fast", 1, fleet.RolloutStopped, -time.Hour), ended("regular", 1, fleet.RolloutRolledBack, 0),
			}, "keda-fast-1",
		},
		"version is being rolled back in a third channel": {
			[]fleet.Rollout{
				ended("regular", 1, fleet.RolloutRolledBack, 0), ended("fast", 1, fleet.RolloutSucceeded, time.Hour),
				rollingBack,
			}, "keda-lts-1",
		},
		"another module has the same version": {[]fleet.Rollout{otherModule}, ""},
	} {
		metas := []v1beta2.ModuleReleaseMeta{{Spec: v1beta2.ModuleReleaseMetaSpec{
			ModuleName: "keda", Channels: []v1beta2.ChannelVersion{{Channel: "fast", Version: "2.0.0"}},
		}}}
		got := ""
		for _, r := range ListRejected(metas, c.rollouts) {
			if got += r.Rollout.Name; r.Channel != "fast" {
				t.Errorf("%s: got channel %s, want fast", name, r.Channel)
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
