package replica

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

func leaseOf(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

func TestAnnouncementIsValidWhileFreshAndItsPlannerHasTheLease(t *testing.T) {
	planned := shard.Announcement{Holder: "planner", Shards: 3, State: "s"}
	for name, c := range map[string]struct {
		announced shard.Announcement
		holder    string
		age       time.Duration
		want      bool
	}{
		"just read":                     {planned, "planner", 0, true},
		"read some seconds ago":         {planned, "planner", announcedFor - time.Second, true},
		"read too long ago":             {planned, "planner", announcedFor + time.Second, false},
		"another process has the lease": {planned, "other", 0, false},
		"nobody has the lease":          {planned, "", 0, false},
		"of another number of shards": {
			shard.Announcement{Holder: "planner", Shards: 2, State: "s"}, "planner", 0, false,
		},
		"of nothing": {shard.Announcement{Holder: "planner", Shards: 3}, "planner", 0, false},
		"none":       {shard.Announcement{}, "", 0, false},
	} {
		b := NewBoard(nil, "kcp-system", "lease", "me", 3)
		if _, known := b.Announced(); known {
			t.Fatalf("%s: before anything was read", name)
		}
		b.take(nil, c.announced, leaseOf(c.holder), time.Now().Add(-c.age))
		if _, known := b.Announced(); known != c.want {
			t.Errorf("%s: it holds: %t, want %t", name, known, c.want)
		}
	}
}

func TestMembersAreAliveWhileTheirHeartbeatsChange(t *testing.T) {
	b, began := NewBoard(nil, "kcp-system", "lease", "me", 3), time.Now().Add(-time.Minute)
	poll := func(after time.Duration, data map[string]string) (forgotten map[string]any) {
		_, forgotten = b.take(data, shard.Announcement{}, leaseOf(""), began.Add(after))
		return forgotten
	}
	first := map[string]string{"member.live": "3 1", "member.dead": "3 7", "member.other": "2 1", "announced": "{}"}
	poll(0, first)
	if b.knowsOthers() {
		t.Error("it is known who lives after one look")
	}
	if _, known := b.Members(); known {
		t.Error("a replica without a heartbeat is a member")
	}
	poll(3*time.Second, map[string]string{"member.live": "3 2", "member.dead": "3 7", "member.other": "2 2"})
	if b.knowsOthers() {
		t.Error("it is known that one is gone after three seconds")
	}
	second := map[string]string{"member.live": "3 6", "member.dead": "3 7", "member.other": "2 6", "member.me": "3 1"}
	poll(memberTimeout+time.Second, second)
	if !b.knowsOthers() {
		t.Error("it is not known who lives")
	}
	live, _ := b.Members()
	if len(live) != 2 || live[0] != "me" || live[1] != "live" {
		t.Errorf("the members are %v", live)
	}
	if forgotten := poll(memberForgotten+time.Second, second); len(forgotten) != 1 {
		t.Errorf("taken off are %v", forgotten)
	}
}
