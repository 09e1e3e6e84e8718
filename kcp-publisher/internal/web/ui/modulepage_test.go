package ui

import (
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestModulePageShowsTheRolloutThatHoldsAVersion(t *testing.T) {
	rollout := func(name string, revision int64, to string, state v1alpha1.RolloutState) fleet.Rollout {
		return fleet.Rollout{
			Name: name, Spec: v1alpha1.RolloutSpec{Module: "keda", Channel: "regular", Revision: revision, To: to},
			Status: v1alpha1.RolloutStatus{State: state},
		}
	}
	first := rollout("keda-regular-1", 1, "1.8.0", v1alpha1.RolloutSucceeded)
	back := rollout("keda-regular-2", 2, "1.9.0", v1alpha1.RolloutRolledBack)
	for name, c := range map[string]struct {
		all     []fleet.Rollout
		version string
		want    string
	}{
		"rolled back version":               {[]fleet.Rollout{back, first}, "1.9.0", "keda-regular-2"},
		"completely rolled out version":     {[]fleet.Rollout{first}, "1.8.0", ""},
		"channel with the previous version": {[]fleet.Rollout{back, first}, "1.8.0", ""},
		"module without rollouts":           {nil, "1.8.0", ""},
		"rollout in another channel": {
			[]fleet.Rollout{{Name: "other", Spec: v1alpha1.RolloutSpec{Module: "keda", Channel: "fast", To: "1.9.0"}}},
			"1.9.0", "",
		},
		"new rollout without a state": {
			[]fleet.Rollout{first, rollout("keda-regular-3", 3, "2.0.0", "")}, "2.0.0", "keda-regular-3",
		},
	} {
		got := ""
		if r := activeRollout(c.all, "keda", "regular", c.version); r != nil {
			got = r.Name
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
