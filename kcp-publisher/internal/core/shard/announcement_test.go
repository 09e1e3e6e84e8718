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

func TestAnnouncedStateChangesWithPoliciesAndRollouts(t *testing.T) {
	policies := []fleet.RolloutPolicy{policy("a", 1), policy("b", 1)}
	rollouts := []fleet.Rollout{rolloutOf("keda", 1, "k1"), rolloutOf("keda", 2, "k2"), rolloutOf("btp", 1, "b1")}
	state := HashState("catalog", policies, rollouts)
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
		"objects in another order": {
			HashState("catalog", []fleet.RolloutPolicy{policies[1], policies[0]},
				[]fleet.Rollout{rollouts[2], rollouts[1], rollouts[0]}), true,
		},
		"rollout made progress": {HashState("catalog", policies, further), true},
		"older rollout deleted": {HashState("catalog", policies, rollouts[1:]), true},
		"catalog changed":       {HashState("other", policies, rollouts), false},
		"policy changed": {
			HashState("catalog", []fleet.RolloutPolicy{policy("a", 2), policy("b", 1)}, rollouts), false,
		},
		"policy deleted":       {HashState("catalog", policies[:1], rollouts), false},
		"policy being deleted": {HashState("catalog", leaving, rollouts), false},
		"newest rollout missing": {
			HashState("catalog", policies, []fleet.Rollout{rollouts[0], rollouts[2]}), false,
		},
		"newest rollout being deleted": {HashState("catalog", policies, deleted), false},
		"rollout recreated with the same name": {
			HashState("catalog", policies, []fleet.Rollout{rolloutOf("keda", 2, "k3"), rollouts[2]}), false,
		},
		"newer rollout added": {
			HashState("catalog", policies, append(slices.Clone(rollouts), rolloutOf("keda", 3, "k3"))), false,
		},
	} {
		if (c.got == state) != c.same {
			t.Errorf("%s: got equal states %t, want %t", name, c.got == state, c.same)
		}
	}
}

func TestAnnouncementIsValidOnlyForItsPlannerAndShardCount(t *testing.T) {
	a := Announcement{Holder: "one", Shards: 3, State: "s"}
	if !a.IsValid(3, "one") || a.IsValid(3, "two") || a.IsValid(2, "one") ||
		(Announcement{Holder: "one", Shards: 3}).IsValid(3, "one") || (Announcement{Shards: 3, State: "s"}).IsValid(3, "") {
		t.Errorf("announcement %+v must be valid only for holder one and three shards", a)
	}
}

func TestAnnouncedHoldPreventsPublishing(t *testing.T) {
	held := Announcement{Holder: "one", Shards: 3, Held: "commit c1 is applied in part"}
	if held.IsValid(3, "one") || !held.Current(3, "one") || held.Current(2, "one") || held.Current(3, "two") {
		t.Errorf("announcement %+v must be current only for its planner and number of shards, and never valid", held)
	}
	if (Announcement{Holder: "one", Shards: 3}).Current(3, "one") {
		t.Error("an announcement with neither a state nor a reason is current")
	}
}

func TestDelayedAnnouncementDoesNotReplaceANewerOne(t *testing.T) {
	newer := Announcement{Holder: "one", Number: 8}
	for name, c := range map[string]struct {
		a    Announcement
		want bool
	}{
		"older announcement":                {Announcement{Holder: "one", Number: 7}, false},
		"same announcement":                 {newer, true},
		"newer announcement":                {Announcement{Holder: "one", Number: 9}, true},
		"announcement from another planner": {Announcement{Holder: "two", Number: 1}, true},
	} {
		if c.a.Supersedes(newer) != c.want {
			t.Errorf("%s: got %t, want %t", name, !c.want, c.want)
		}
	}
}

func TestDecodeReportTimesReturnsEncodedTimes(t *testing.T) {
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
		t.Errorf("got report times %+v, %v, want %+v", got, err, h)
	}
	if one := got.Kymas["one"]; !one.HasContent(content) ||
		one.HasContent("sha256:"+strings.Repeat("0b", 32)) || one.HasContent("") ||
		(ReportTime{}).HasContent("") {
		t.Errorf("report time %+v must have only the digest %s", one, content)
	}
	for name, bad := range map[string][]byte{"empty data": nil, "data that is not compressed": []byte("{}"),
		"data that is too large": make([]byte, maxEncodedBytes+1), "truncated data": data[:len(data)/2]} {
		if _, err := DecodeReportTimes(bad); err == nil {
			t.Errorf("%s: decoding succeeded", name)
		}
	}
}
