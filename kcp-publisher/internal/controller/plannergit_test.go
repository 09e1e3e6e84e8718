package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// plannerWithGit contains a planner and records its announcements.
type plannerWithGit struct {
	*Planner
	last      shard.Announcement
	stored    []byte
	approvals shard.Approvals
	source    *bundle.Source
	reason    string
	requested bool
	compared  int
	lost      error // returned by MayWrite
}

func newPlannerWithGit(t *testing.T) *plannerWithGit {
	t.Helper()
	w := &plannerWithGit{reason: "commit c1 is applied in part"}
	w.Planner = &Planner{
		PlannerOptions: PlannerOptions{
			MayWrite: func() error { return w.lost },
			Announce: func(_ context.Context, a shard.Announcement) error {
				w.last = a
				return nil
			},
		},
		catalog: &Catalog{Changes: withoutEvent()},
		git: &PlannedGit{
			Source: func() *bundle.Source { return w.source }, Compared: func() time.Time { return time.Unix(5, 0) },
			Compare: func() { w.compared++ }, Requested: func() bool { return w.requested },
			Holding: func() string { return w.reason }, Approvals: func() shard.Approvals { return w.approvals },
			WriteApprovals: func(_ context.Context, data []byte) error {
				w.stored = data
				return nil
			},
			Acknowledged: func(context.Context) error {
				if w.last.Held == "" {
					return errors.New("the planner waits without a hold")
				}
				return nil
			},
		},
	}
	w.read(t)
	return w
}

// read replaces the catalog with an empty one, as if the planner had read it after the latest change.
func (w *plannerWithGit) read(t *testing.T) *catalog.Snapshot {
	t.Helper()
	next, err := catalog.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.catalog.snapshot.Store(next)
	w.catalog.readChanges.Store(w.catalog.endedChanges.Load())
	return next
}

func TestPlannerAnnouncesNoStateWhileACommitIsApplied(t *testing.T) {
	w, ctx := newPlannerWithGit(t), t.Context()
	announce := func(evaluated *catalog.Snapshot, state string) {
		t.Helper()
		if err := w.announceState(ctx, evaluated, shard.Announcement{State: state, Active: true}); err != nil {
			t.Fatal(err)
		}
	}
	old := w.catalog.Snapshot()
	if w.announceAgain(ctx); w.last.Held == "" || w.last.State != "" {
		t.Errorf("before the first evaluation: announced %+v, want a hold", w.last)
	}
	announce(old, "s1")
	if w.last.State != "s1" || w.last.Held != "" || !w.last.Active || w.last.Commit.Applied != 0 {
		t.Errorf("outside of a hold: announced %+v, want state s1", w.last)
	}

	release := w.Hold()
	if err := w.Stop(ctx); err != nil || w.last.Held != w.reason || w.last.State != "" {
		t.Errorf("hold: announced %+v, error %v", w.last, err)
	}
	announce(old, "s1") // this evaluation began before the hold
	if w.announceAgain(ctx); w.last.State != "" {
		t.Errorf("evaluation during the hold: announced %+v, want the hold", w.last)
	}
	release()
	release()
	w.reason = ""
	if w.announceAgain(ctx); w.last.State != "" || w.last.Held == "" {
		t.Errorf("before the catalog is read: announced %+v, want a hold", w.last)
	}
	read := w.read(t)
	announce(old, "s1")
	if w.announceAgain(ctx); w.last.State != "" {
		t.Errorf("evaluation of an older catalog: announced %+v, want a hold", w.last)
	}
	w.source = &bundle.Source{Repository: "r", Commit: "c1"}
	announce(read, "s2")
	first := w.last.Commit
	if w.last.State != "s2" || w.last.Held != "" || first.Hash != "c1" || first.Repository != "r" ||
		first.Applied == 0 || first.Compared != time.Unix(5, 0).UnixNano() {
		t.Errorf("after the hold: announced %+v, want state s2 of commit c1", w.last)
	}
	w.Hold()()
	announce(w.read(t), "s2")
	if w.last.Commit.Applied <= first.Applied {
		t.Error("the shards cannot detect a hold that they did not read")
	}
	w.source = &bundle.Source{Repository: "r", Commit: "c2"}
	if w.announceAgain(ctx); w.last.Commit.Hash != "c2" || w.last.State != "s2" {
		t.Errorf("commit without changes: announced %+v, want commit c2", w.last)
	}
}

func TestPlannerStoresApprovalsBeforeItAnnouncesThem(t *testing.T) {
	w, ctx := newPlannerWithGit(t), t.Context()
	w.approvals = shard.Approvals{Commit: "c1", At: time.Unix(7, 0), Kymas: map[types.UID]bool{"u1": true}}
	w.Hold()
	if err := w.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := shard.CheckApprovals(w.stored, w.last.Commit.Approved); err != nil {
		t.Error(err)
	}
	w.stored = nil
	if w.announceAgain(ctx); w.stored != nil {
		t.Error("the same approvals are stored again")
	}
	w.requested = true
	if w.announceAgain(ctx); shard.CheckApprovals(w.stored, w.last.Commit.Approved) != nil {
		t.Error("approvals that a shard cannot read are not stored again")
	}
	w.stored, w.lost = nil, errors.New("the Lease is lost")
	if w.announceAgain(ctx); w.stored != nil {
		t.Error("a former planner stores approvals")
	}
	w.requested, w.lost = false, nil
	w.approvals = shard.Approvals{}
	if w.announceAgain(ctx); w.last.Commit.Approved != "" {
		t.Errorf("without approvals: announced %+v", w.last)
	}
}

func TestPlannerComparesWithGitIfAShardRequestsIt(t *testing.T) {
	w := newPlannerWithGit(t)
	if w.announceAgain(t.Context()); w.compared != 0 {
		t.Error("the planner compares without a request")
	}
	w.requested = true
	if w.announceAgain(t.Context()); w.compared != 1 {
		t.Error("the planner does not compare after a request")
	}
}

func TestPlannerWithoutGitAnnouncesNoCommit(t *testing.T) {
	w := newPlannerWithGit(t)
	w.git = nil
	if err := w.announceState(t.Context(), w.catalog.Snapshot(), shard.Announcement{State: "s1"}); err != nil {
		t.Fatal(err)
	}
	if !w.last.Equal(shard.Announcement{State: "s1"}) {
		t.Errorf("announced %+v, want only the state", w.last)
	}
}
