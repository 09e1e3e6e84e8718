// Package fleetstate contains a publisher's in-memory state of each runtime. A new process rebuilds this state from the
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

// Key is the namespace and the name of a Kyma.
type Key = types.NamespacedName

// Fleet contains the in-memory state of all runtimes that a publisher process or one of its shards is responsible for.
// It is safe for concurrent use.
type Fleet struct {
	dropRecord func(*publish.Record)

	mu           sync.Mutex // guards runtimes, except the data behind Runtime.Published
	runtimes     map[Key]*Runtime
	failingCount int // number of runtimes with a Backoff
}

// New returns an empty Fleet. The Fleet calls dropRecord for each publish.Record that it drops.
func New(dropRecord func(*publish.Record)) *Fleet {
	return &Fleet{dropRecord: dropRecord, runtimes: map[Key]*Runtime{}}
}

// Get returns a copy of a Kyma's in-memory state. It returns a zero Runtime if the Fleet does not contain the Kyma.
func (f *Fleet) Get(key Key) Runtime {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runtimes[key]; r != nil {
		return *r
	}
	return Runtime{}
}

// Edit calls change with a Kyma's in-memory state while it holds the lock. If the Fleet does not contain the Kyma, Edit
// adds it.
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
	f.countFailing(failed, r.Backoff != nil)
}

func (f *Fleet) countFailing(before, now bool) {
	switch {
	case now && !before:
		f.failingCount++
	case before && !now:
		f.failingCount--
	}
}

// GetCurrent returns a copy of a Kyma's in-memory state. It first resets the state if a user has recreated the Kyma or
// if the Kyma's runtime ID has changed.
func (f *Fleet) GetCurrent(kyma *v1beta2.Kyma) Runtime {
	return f.EditCurrent(kyma, func(*Runtime) {})
}

// EditCurrent calls change with a Kyma's in-memory state while it holds the lock, and returns a copy of the result. It
// first resets the state if a user has recreated the Kyma or if the Kyma's runtime ID has changed.
func (f *Fleet) EditCurrent(kyma *v1beta2.Kyma, change func(*Runtime)) (after Runtime) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edit(client.ObjectKeyFromObject(kyma), func(r *Runtime) {
		if id := plan.RuntimeID(kyma); r.UID != kyma.UID || r.ID != id {
			f.deleteRecord(r.Published)
			r.reset(kyma.UID, id)
		}
		change(r)
		after = *r
	})
	return after
}

// Delete deletes a Kyma's in-memory state and returns it.
func (f *Fleet) Delete(key Key) (dropped Runtime) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runtimes[key]; r != nil {
		dropped = *r
		f.deleteRecord(r.Published)
		f.countFailing(r.Backoff != nil, false)
		delete(f.runtimes, key)
	}
	return dropped
}

func (f *Fleet) deleteRecord(published *publish.Record) {
	if published != nil && f.dropRecord != nil {
		f.dropRecord(published)
	}
}

// ForEach calls visit with the in-memory state of every Kyma while it holds the lock. visit can change the state.
func (f *Fleet) ForEach(visit func(Key, *Runtime)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, r := range f.runtimes {
		failed := r.Backoff != nil
		visit(key, r)
		f.countFailing(failed, r.Backoff != nil)
	}
}

// CountFailing returns the number of runtimes with a Backoff.
func (f *Fleet) CountFailing() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failingCount
}

// RemainingDelay returns the remaining delay before the publisher can send the next registry request for a Kyma's
// runtime.
func (f *Fleet) RemainingDelay(key Key, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runtimes[key]; r != nil {
		return r.Backoff.Remaining(now)
	}
	return 0
}
