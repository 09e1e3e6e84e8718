package shard

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func policy(name string, generation int64) (p fleet.RolloutPolicy) {
	p.Name, p.UID, p.Generation = name, types.UID("uid of "+name), generation
	return p
}

func rolloutOf(module string, revision int64, uid types.UID) (r fleet.Rollout) {
	r.Name, r.UID = module+"-regular", uid
	r.Spec.Module, r.Spec.Channel, r.Spec.Revision = module, "regular", revision
	return r
}

func TestStateCoversTheInputsOfGates(t *testing.T) {
	policies := []fleet.RolloutPolicy{policy("a", 1), policy("b", 1)}
	rollouts := []fleet.Rollout{rolloutOf("keda", 1, "k1"), rolloutOf("keda", 2, "k2"), rolloutOf("btp", 1, "b1")}
	state := State("catalog", policies, rollouts)
	further := slices.Clone(rollouts)
	further[1].Status.State, further[1].ResourceVersion = fleet.RolloutProgressing, "7"
	deleted := slices.Clone(rollouts)
	deleted[1].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	leaving := slices.Clone(policies)
	leaving[0].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, c := range map[string]struct {
		got  string
		same bool
	}{
		"the same in another order": {
			State("catalog", []fleet.RolloutPolicy{policies[1], policies[0]},
				[]fleet.Rollout{rollouts[2], rollouts[1], rollouts[0]}), true,
		},
		"a rollout that came further": {State("catalog", policies, further), true},
		"without an older rollout":    {State("catalog", policies, rollouts[1:]), true},
		"another catalog":             {State("other", policies, rollouts), false},
		"a policy that changed": {
			State("catalog", []fleet.RolloutPolicy{policy("a", 2), policy("b", 1)}, rollouts), false,
		},
		"a policy less":                  {State("catalog", policies[:1], rollouts), false},
		"a policy that is being deleted": {State("catalog", leaving, rollouts), false},
		"without the newest rollout": {
			State("catalog", policies, []fleet.Rollout{rollouts[0], rollouts[2]}), false,
		},
		"a newest one that is deleted": {State("catalog", policies, deleted), false},
		"another object of its name": {
			State("catalog", policies, []fleet.Rollout{rolloutOf("keda", 2, "k3"), rollouts[2]}), false,
		},
		"a newer rollout": {
			State("catalog", policies, append(slices.Clone(rollouts), rolloutOf("keda", 3, "k3"))), false,
		},
	} {
		if (c.got == state) != c.same {
			t.Errorf("%s: the state is the same: %t, want %t", name, c.got == state, c.same)
		}
	}
}

func TestAnnouncementIsValidForItsPlannerAndShardCount(t *testing.T) {
	a := Announcement{Holder: "one", Shards: 3, State: "s"}
	if !a.Valid(3, "one") || a.Valid(3, "two") || a.Valid(2, "one") ||
		(Announcement{Holder: "one", Shards: 3}).Valid(3, "one") || (Announcement{Shards: 3, State: "s"}).Valid(3, "") {
		t.Errorf("%+v holds for others than three shards of one", a)
	}
}

func TestReportTimesRoundTrip(t *testing.T) {
	content := "sha256:" + strings.Repeat("0a", 32)
	h := ReportTimes{
		At: time.Unix(10, 0).UTC(), Began: time.Unix(5, 0).UTC(), Kymas: map[string]ReportTime{
			"one": NewReportTime(time.Unix(7, 0), time.Unix(8, 0), content),
		},
	}
	data, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeReportTimes(data)
	if err != nil || !got.At.Equal(h.At) || !got.Began.Equal(h.Began) || got.Kymas["one"] != h.Kymas["one"] {
		t.Errorf("%+v, %v", got, err)
	}
	if one := got.Kymas["one"]; !one.Says(content) || one.Says("sha256:"+strings.Repeat("0b", 32)) || one.Says("") ||
		(ReportTime{}).Says("") {
		t.Errorf("%+v differs after a round trip", one)
	}
	for name, bad := range map[string][]byte{"nothing": nil, "plain text": []byte("{}"),
		"too much": make([]byte, maxEncodedBytes+1), "half": data[:len(data)/2]} {
		if _, err := DecodeReportTimes(bad); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}
