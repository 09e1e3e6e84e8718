package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Lease is the lease that a program works under.
type Lease struct {
	resourcelock.Interface
	duration time.Duration
	now      func() time.Time

	mu sync.Mutex // guards what follows
	// renewed is when the last renewal that succeeded was asked for, zero for none.
	renewed time.Time
	// resumed says that the process before, of the same name, had the lease that this one has.
	resumed bool
}

// inFlight is how long before its end a lease counts as lost: what begins under it has to arrive under it.
const inFlight = 2 * time.Second

// errLost says that another process may have the lease.
var errLost = errors.New("the lease was not renewed in time, another process may have it")

// newLease returns the lease of a name.
func newLease(config *rest.Config, namespace, name string, duration, renewDeadline time.Duration) (*Lease, error) {
	holder, err := identity()
	if err != nil {
		return nil, fmt.Errorf("name the holder of the lease: %w", err)
	}
	return newLeaseOf(config, holder, namespace, name, duration, renewDeadline)
}

func newLeaseOf(config *rest.Config, holder, namespace, name string, duration, renewDeadline time.Duration) (*Lease, error) {
	if namespace == "" {
		return nil, errors.New("set up the lease: it has no namespace")
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, name,
		resourcelock.ResourceLockConfig{Identity: holder}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("set up the lease: %w", err)
	}
	return &Lease{Interface: lock, duration: duration, now: time.Now}, nil
}

// tell has changes of the lease's holder become Events.
func (l *Lease) tell(recorder resourcelock.EventRecorder) {
	if lock, ok := l.Interface.(*resourcelock.LeaseLock); ok {
		lock.LockConfig.EventRecorder = recorder
	}
}

// Get reads the lease. One that is gone, or that somebody else has, is lost at once, however long it would have lasted.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() {
		l.resumed = err == nil && record.HolderIdentity == l.Identity()
	}
	if apierrors.IsNotFound(err) || err == nil && record.HolderIdentity != l.Identity() {
		l.renewed = time.Time{}
	}
	return record, raw, err
}

// RecordEvent makes an Event of a change of the holder. That a container which starts again goes on with its lease is
// none.
func (l *Lease) RecordEvent(event string) {
	l.mu.Lock()
	resumed := l.resumed
	l.resumed = false
	l.mu.Unlock()
	if !resumed {
		l.Interface.RecordEvent(event)
	}
}

// Create takes a lease that nobody had.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update takes over or renews the lease.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *Lease) renew(record resourcelock.LeaderElectionRecord, write func() error) error {
	asked := l.now()
	err := write()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.renewed = asked; record.HolderIdentity != l.Identity() {
			l.renewed = time.Time{}
		}
	}
	return err
}

// Held returns nil while no other process can have the lease. A process that was stopped for a while, or cut off from
// the API server, is not told at once that it is no leader any more; it has to ask before it writes where no API server
// refuses a second writer. Without leader election there is no lease, nil, which is always held.
func (l *Lease) Held() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	renewed := l.renewed
	l.mu.Unlock()
	now := l.now()
	// By both clocks: one stands still while a machine sleeps, the other can be set.
	if age := max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0))); renewed.IsZero() || age > l.duration-inFlight {
		return errLost
	}
	return nil
}
