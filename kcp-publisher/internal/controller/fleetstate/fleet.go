// Package fleetstate contains a publisher's in-memory state of each runtime. A new process rebuilds the state from the
// registry and the API server.
package fleetstate

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Key is the name of a Kyma.
type Key = types.NamespacedName

// Fleet contains the records of all runtimes of a publisher or shard. It is safe for concurrent use.
type Fleet struct {
	release func(*publish.Record)

	mu       sync.Mutex // guards runtimes, but not the record that Published points to
	runtimes map[Key]*Runtime
	failing  int // number of runtimes with a Backoff
}

// New returns an empty Fleet. It calls release with each dropped publish record.
func New(release func(*publish.Record)) *Fleet {
	return &Fleet{release: release, runtimes: map[Key]*Runtime{}}
}

// Get returns a copy of the record of a Kyma, or a zero record.
func (f *Fleet) Get(key Key) Runtime {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runtimes[key]; r != nil {
		return *r
	}
	return Runtime{}
}

// Edit changes the record of a Kyma under the lock. It creates a missing record.
func (f *Fleet) Edit(key Key, change func(*Runtime)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edit(key, change)
}

func (f *Fleet) edit(key Key, change func(*Runtime)) {
	r := f.runtimes[key]
	if r == nil {
		r = &Runtime{}
		f.runtimes[key] = r
	}
	failed := r.Backoff != nil
	change(r)
	f.count(failed, r.Backoff != nil)
}

func (f *Fleet) count(before, now bool) {
	switch {
	case now && !before:
		f.failing++
	case before && !now:
		f.failing--
	}
}

// Of returns a copy of the record of a Kyma. It first resets the record if the Kyma was recreated or belongs to another
// runtime now.
func (f *Fleet) Of(kyma *v1beta2.Kyma) Runtime {
	return f.EditOf(kyma, func(*Runtime) {})
}

// EditOf changes the record of a Kyma under the lock and returns a copy. Like Of, it first resets an outdated record.
func (f *Fleet) EditOf(kyma *v1beta2.Kyma, change func(*Runtime)) (after Runtime) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edit(client.ObjectKeyFromObject(kyma), func(r *Runtime) {
		if id := plan.RuntimeID(kyma); r.UID != kyma.UID || r.ID != id {
			f.drop(r.Published)
			r.startOver(kyma.UID, id)
		}
		change(r)
		after = *r
	})
	return after
}

// Drop deletes the record of a Kyma and returns it.
func (f *Fleet) Drop(key Key) (dropped Runtime) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runtimes[key]; r != nil {
		dropped = *r
		f.drop(r.Published)
		f.count(r.Backoff != nil, false)
		delete(f.runtimes, key)
	}
	return dropped
}

func (f *Fleet) drop(published *publish.Record) {
	if published != nil && f.release != nil {
		f.release(published)
	}
}

// Each calls visit with every record under the lock. visit can change the record.
func (f *Fleet) Each(visit func(Key, *Runtime)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, r := range f.runtimes {
		failed := r.Backoff != nil
		visit(key, r)
		f.count(failed, r.Backoff != nil)
	}
}

// Failing returns the number of runtimes with a Backoff.
func (f *Fleet) Failing() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failing
}

// Wait returns the remaining delay before the next registry request for a runtime.
func (f *Fleet) Wait(key Key, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runtimes[key]; r != nil {
		return r.Backoff.Left(now)
	}
	return 0
}
