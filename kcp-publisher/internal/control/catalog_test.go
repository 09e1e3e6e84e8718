package control

import (
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestTheCatalogStaysAsItIsWhileItIsHeld(t *testing.T) {
	c := &Catalog{again: make(chan event.GenericEvent, 1)} // nothing to read: looking at it would panic
	first, second := c.Hold(), c.Hold()
	for name, release := range map[string]func(){"held twice": func() {}, "held once": first, "released twice by the same": first} {
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

func TestHowLongAChangeTakesIsCountedFromTheNewestHold(t *testing.T) {
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
