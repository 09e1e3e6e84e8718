package controller

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/removal"
)

func TestUnusedRemovalDataIsDropped(t *testing.T) {
	now, invented := noon, removal.Removal{Runtime: "berlin", Module: "invented"}
	old, recent := removal.Removal{Runtime: "old"}, removal.Removal{Runtime: "recent"}
	r := &removalJudge{
		now: func() time.Time { return now }, limits: removal.DefaultLimits,
		pending:   map[types.UID]pendingEntry{"uid": {modules: []string{invented.Module}}},
		firstSeen: map[removal.Removal]time.Time{invented: noon},
		lastDecision: removalDecision{
			at: noon, pending: map[removal.Removal]bool{invented: true},
			held: map[removal.Removal]removal.Reason{invented: removal.Restored},
		},
		recentRemovals: map[removal.Removal]time.Time{old: noon.Add(-removal.DefaultLimits.Window), recent: noon},
	}
	now = noon.Add(unusedTime / 2)
	if r.dropUnused(); len(r.lastDecision.held) != 1 || len(r.firstSeen) != 1 || len(r.pending) != 1 {
		t.Error("the data for the last decision was dropped, but the decision is recent")
	}
	now = noon.Add(unusedTime)
	if r.dropUnused(); len(r.lastDecision.held)+len(r.lastDecision.pending)+len(r.firstSeen)+len(r.pending) != 0 {
		t.Errorf("the data for the last decision was not dropped: %+v, %v, %v", r.lastDecision, r.firstSeen, r.pending)
	}
	if _, counts := r.recentRemovals[recent]; len(r.recentRemovals) != 1 || !counts {
		t.Errorf("got the removals %v for deleted Kymas, want only the recent one", r.recentRemovals)
	}
}
