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

func TestCatalogIsFrozenWhileHeld(t *testing.T) {
	c := &Catalog{again: make(chan event.GenericEvent, 1)} // reading it would panic, because there is no reader
	first, second := c.Hold(), c.Hold()
	for name, release := range map[string]func(){"held twice": func() {}, "held once": first,
		"released twice by the same": first} {
		release()
		if result, err := c.Reconcile(t.Context(), ctrl.Request{}); err != nil || result.RequeueAfter <= 0 {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
		if !c.changing() {
			t.Errorf("%s: bundles are made", name)
		}
	}
	second()
	if !c.changing() {
		t.Error("bundles are made of what was before the change")
	}
	select {
	case <-c.again:
	default:
		t.Error("nobody is asked to look")
	}
}

// duringLists calls a function before each list, while a catalog is read.
type duringLists struct {
	client.Reader
	call func()
}

func (d duringLists) List(context.Context, client.ObjectList, ...client.ListOption) error {
	d.call()
	return nil
}

func TestKymasWaitForTheViewAfterAChange(t *testing.T) {
	c := &Catalog{again: make(chan event.GenericEvent, 1), moved: make(chan event.GenericEvent, 9)}
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
	k := &Kymas{Catalog: c, Rollouts: Rollouts{Catalog: c}, Watchers: Watchers{}}
	k.Watchers.accepted.Store(&[]bundle.Watcher{})
	k.Rollouts.view.Store(&plan.View{Catalog: before})
	if k.view() == nil {
		t.Fatal("nothing changes, and nothing is resolved")
	}
	release := c.Hold()
	release()
	poll(func() {
		if k.view() != nil {
			t.Error("while the catalog is read after a change, Kymas are resolved by the one before")
		}
	})
	if c.changing() || c.Snapshot() == before || len(c.moved) != 2 {
		t.Errorf("after a change that the catalog does not show: changing %t, the gates are asked for %d times",
			c.changing(), len(c.moved))
	}
	if k.view() != nil {
		t.Error("Kymas are resolved by gates from before the change")
	}
	held := c.Snapshot()
	if result := poll(func() { c.Hold() }); result.RequeueAfter <= 0 || c.Snapshot() != held {
		t.Error("what was read while a change began is the catalog")
	}
}

func TestChangingForCountsFromTheLatestHold(t *testing.T) {
	c := &Catalog{again: make(chan event.GenericEvent, 1)}
	if took := c.changingFor(); took != 0 {
		t.Errorf("without a change: %s", took)
	}
	release := c.Hold()
	c.began.Store(time.Now().Add(-time.Hour).UnixNano())
	if took := c.changingFor(); took < time.Hour {
		t.Errorf("after an hour: %s", took)
	}
	next := c.Hold()
	release()
	if took := c.changingFor(); took > time.Minute {
		t.Errorf("after the next began: %s", took)
	}
	next()
	if took := c.changingFor(); took != 0 {
		t.Errorf("after it: %s", took)
	}
}
