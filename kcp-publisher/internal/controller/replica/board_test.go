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

func TestAnnouncementRequiresFreshnessAndPlannerLease(t *testing.T) {
	planned := shard.Announcement{Holder: "planner", Shards: 3, State: "s"}
	for name, c := range map[string]struct {
		announced shard.Announcement
		holder    string
		age       time.Duration
		want      bool
	}{
		"announcement was just read":             {planned, "planner", 0, true},
		"announcement was read some seconds ago": {planned, "planner", announcementTimeout - time.Second, true},
		"announcement was read too long ago":     {planned, "planner", announcementTimeout + time.Second, false},
		"another process holds the lease":        {planned, "other", 0, false},
		"no process holds the lease":             {planned, "", 0, false},
		"announcement with a different number of shards": {
			shard.Announcement{Holder: "planner", Shards: 2, State: "s"}, "planner", 0, false,
		},
		"announcement without a state": {shard.Announcement{Holder: "planner", Shards: 3}, "planner", 0, false},
		"no announcement":              {shard.Announcement{}, "", 0, false},
	} {
		b := NewBoard(nil, "kcp-system", "lease", "me", 3, nil)
		if _, known := b.Announced(); known {
			t.Fatalf("%s: the announcement is valid before the first read", name)
		}
		b.heartbeatText, b.heartbeatAt = "3 1 / 0", time.Now()
		b.storeContent(map[string]string{"member.me": "3 1 / 0"}, c.announced, leaseOf(c.holder), time.Now().Add(-c.age))
		if _, known := b.Announced(); known != c.want {
			t.Errorf("%s: the announcement is valid: %t, want %t", name, known, c.want)
		}
	}
}

func TestReplicasAreAliveWhileTheirHeartbeatsChange(t *testing.T) {
	b, began := NewBoard(nil, "kcp-system", "lease", "me", 3, nil), time.Now().Add(-time.Minute)
	poll := func(after time.Duration, data map[string]string) (forgotten map[string]any) {
		_, forgotten = b.storeContent(data, shard.Announcement{}, leaseOf(""), began.Add(after))
		return forgotten
	}
	first := map[string]string{"member.live": "3 1", "member.dead": "3 7", "member.other": "2 1", "announced": "{}"}
	poll(0, first)
	if b.hasReadMembers() {
		t.Error("the live members are known after one read")
	}
	if _, known := b.Members(); known {
		t.Error("this replica is a member before its first heartbeat")
	}
	poll(3*time.Second, map[string]string{"member.live": "3 2", "member.dead": "3 7", "member.other": "2 2"})
	if b.hasReadMembers() {
		t.Error("member that is silent for three seconds: got gone, want live")
	}
	second := map[string]string{"member.live": "3 6", "member.dead": "3 7", "member.other": "2 6", "member.me": "3 1"}
	poll(memberTimeout+time.Second, second)
	if !b.hasReadMembers() {
		t.Error("the live members are unknown after the timeout")
	}
	live, _ := b.Members()
	if len(live) != 2 || live[0] != "me" || live[1] != "live" {
		t.Errorf("the live members are %v, want me and live", live)
	}
	if forgotten := poll(memberRemovalTimeout+time.Second, second); len(forgotten) != 2 {
		t.Errorf("fields to remove are %v, want the heartbeat and the hints of the dead replica", forgotten)
	}
}
