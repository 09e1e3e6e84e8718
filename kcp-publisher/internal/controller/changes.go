package controller

import (
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Changes tracks changes to several catalog objects that must be published together, such as all changes in a Git
// commit. It is safe for concurrent use.
type Changes struct {
	// A change begins with a call to Hold and ends with a call to its release function. inProgress is the number of
	// changes in progress, and endedChanges is the number of changes that have ended. Each event in the channel rereads
	// triggers a read of the catalog.
	inProgress   atomic.Int32
	endedChanges atomic.Int64
	// changeStart is the start of the latest change in Unix nanoseconds.
	changeStart atomic.Int64
	rereads     chan event.GenericEvent
}

// NewChanges returns a Changes without changes in progress. An initial event triggers the first read of the catalog,
// even if the catalog is empty.
func NewChanges() *Changes { return &Changes{rereads: initialEvent()} }

// Hold must be called before several catalog objects are changed together. Until release is called, the publisher does
// not read the catalog or publish bundles, so that a bundle never contains only some of the changes.
func (c *Changes) Hold() (release func()) {
	c.changeStart.Store(time.Now().UnixNano())
	c.inProgress.Add(1)
	return sync.OnceFunc(func() {
		c.endedChanges.Add(1)
		c.inProgress.Add(-1)
		select {
		case c.rereads <- event.GenericEvent{Object: &v1beta2.Kyma{}}:
		default: // a read is already pending
		}
	})
}

// changingFor returns how long the change in progress has taken so far, or 0 if no change is in progress.
func (c *Changes) changingFor() time.Duration {
	if c.inProgress.Load() == 0 {
		return 0
	}
	return time.Since(time.Unix(0, c.changeStart.Load()))
}

func initialEvent() chan event.GenericEvent {
	one := make(chan event.GenericEvent, 1)
	one <- event.GenericEvent{Object: &v1beta2.Kyma{}}
	return one
}
