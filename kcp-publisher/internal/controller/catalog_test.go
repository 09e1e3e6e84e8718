package controller

import (
	"context"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// withoutEvent returns Changes without the initial event from NewChanges.
func withoutEvent() *Changes { return &Changes{rereads: make(chan event.GenericEvent, 1)} }

func TestCatalogIsNotReadDuringAPartialChange(t *testing.T) {
	c := &Catalog{Changes: withoutEvent()} // it has no reader, so a read would panic
	first, second := c.Hold(), c.Hold()
	for name, release := range map[string]func(){"two holds": func() {}, "one hold": first,
		"hold released twice": first} {
		release()
		if result, err := c.Reconcile(t.Context(), ctrl.Request{}); err != nil || result.RequeueAfter <= 0 {
			t.Errorf("%s: got %+v, %v, want a requeue", name, result, err)
		}
		if !c.isChanging() {
			t.Errorf("%s: the catalog is not frozen", name)
		}
	}
	second()
	if !c.isChanging() {
		t.Error("the catalog from before the change is in use after the last release")
	}
	select {
	case <-c.rereads:
	default:
		t.Error("the last release did not trigger a read of the catalog")
	}
}

type duringLists struct {
	client.Reader
	call func()
}

func (d duringLists) List(context.Context, client.ObjectList, ...client.ListOption) error {
	d.call()
	return nil
}

func TestKymasWaitUntilTheCatalogSnapshotContainsAChange(t *testing.T) {
	c := &Catalog{Changes: withoutEvent(), changed: make(chan event.GenericEvent, 9)}
	poll := func(during func()) ctrl.Result {
		t.Helper()
		c.Reader = duringLists{call: during}
		result, err := c.Reconcile(t.Context(), ctrl.Request{})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	poll(func() {})
	before := c.Snapshot()
	k := &Kymas{Catalog: c, Rollouts: &Rollouts{Catalog: c}, Watchers: &Watchers{}}
	k.Watchers.accepted.Store(&[]bundle.Watcher{})
	k.Rollouts.view.Store(&plan.View{Catalog: before})
	if k.currentView() == nil {
		t.Fatal("no view without a change")
	}
	release := c.Hold()
	release()
	poll(func() {
		if k.currentView() != nil {
			t.Error("the view from before the change is in use while the catalog is read")
		}
	})
	if c.isChanging() || c.Snapshot() == before || len(c.changed) != 2 {
		t.Errorf("change without effect on the catalog: got changing %t and %d evaluations, want false and 2",
			c.isChanging(), len(c.changed))
	}
	if k.currentView() != nil {
		t.Error("the view from before the change is in use")
	}
	held := c.Snapshot()
	if result := poll(func() { c.Hold() }); result.RequeueAfter <= 0 || c.Snapshot() != held {
		t.Error("a snapshot that was read while a change began is in use")
	}
}

func TestCatalogChangeDurationStartsAtTheLatestHold(t *testing.T) {
	c := &Catalog{Changes: withoutEvent()}
	if took := c.changingFor(); took != 0 {
		t.Errorf("got %s without a change, want 0", took)
	}
	release := c.Hold()
	c.changeStart.Store(time.Now().Add(-time.Hour).UnixNano())
	if took := c.changingFor(); took < time.Hour {
		t.Errorf("got %s an hour after the change began", took)
	}
	next := c.Hold()
	release()
	if took := c.changingFor(); took > time.Minute {
		t.Errorf("got %s after the next change began, want the time since then", took)
	}
	next()
	if took := c.changingFor(); took != 0 {
		t.Errorf("got %s after both changes, want 0", took)
	}
}
