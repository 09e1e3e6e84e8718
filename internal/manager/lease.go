package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Election contains the leader election durations.
type Election struct {
	// Lease is the lease duration. If the holder does not renew the lease for this time, another replica can acquire
	// it.
	Lease time.Duration
	// Renew is the maximum time during which the holder retries a failed renewal. Then its process exits. Renew can be
	// longer than Lease, because a process cannot write after its lease has expired.
	Renew time.Duration
	// Retry is the time between two attempts to acquire or renew a lease.
	Retry time.Duration
}

// Replicas is for a program with several replicas. Another replica takes over quickly, and no replica exits during an
// API server outage of up to a minute. Single is for a program with one replica. It renews the lease only once per
// minute.
var (
	Replicas = Election{Lease: 15 * time.Second, Renew: 75 * time.Second, Retry: 2 * time.Second}
	Single   = Election{Lease: 3 * time.Minute, Renew: 100 * time.Second, Retry: 2 * time.Second}
)

// renewalInterval returns the time between two renewals. Two renewals can fail before the lease expires.
func (e Election) renewalInterval() time.Duration { return e.Lease / 3 }

// Elector returns the settings for client-go's elector, which requires a lease duration longer than the renew
// deadline. The API server still gets the configured lease duration.
func (e Election) Elector() Election {
	e.Lease = max(e.Lease, e.Renew+time.Second)
	return e
}

// maxRequestTime is the maximum timeout for a lease request. It leaves time for a retry.
const maxRequestTime = 10 * time.Second

// inFlight is the time that a write can need to reach the server. The process stops writing this long before its lease
// expires.
const inFlight = 2 * time.Second

var (
	// errExpired means that another process could hold the lease.
	errExpired = errors.New("the lease was not renewed in time, so another process could hold it")
	// errTaken means that another process acquired this process's lease.
	errTaken = errors.New("leader election lost: another process acquired the lease")
)

// Lease is a lease that allows one process to write. It skips early renewals, because client-go's elector renews at
// every retry period.
type Lease struct {
	resourcelock.Interface
	election Election
	now      func() time.Time
	// takenOver is closed once another process acquires this process's lease.
	takenOver chan struct{}
	revisions *revisions

	mu sync.Mutex // guards all fields below
	// renewedAt is when the lease was last renewed, or zero if this process does not hold the lease.
	renewedAt time.Time
	acquired  bool
	// wasHeldBefore is true if the lease already contained this process's identity when the process started.
	wasHeldBefore bool
}

func newLease(config *rest.Config, namespace, name string, election Election) (*Lease, error) {
	holder, err := identity(config.Host + "/" + namespace + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("determine the identity for lease %s/%s: %w", namespace, name, err)
	}
	return newLeaseFor(config, holder, namespace, name, election)
}

func newLeaseFor(config *rest.Config, holder, namespace, name string, election Election) (*Lease, error) {
	if namespace == "" {
		return nil, fmt.Errorf("lease %s: namespace is required", name)
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	config.Timeout = min(election.Lease/3, maxRequestTime)
	leases, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up lease %s/%s: %w", namespace, name, err)
	}
	revisions := newRevisions()
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: observedLeases{leases, revisions},
		LockConfig: resourcelock.ResourceLockConfig{Identity: holder},
	}
	return &Lease{
		Interface: lock,
		election:  election,
		now:       time.Now,
		takenOver: make(chan struct{}),
		revisions: revisions,
	}, nil
}

func (l *Lease) recordWith(recorder resourcelock.EventRecorder) {
	if lock, ok := l.Interface.(*resourcelock.LeaseLock); ok {
		lock.LockConfig.EventRecorder = recorder
	}
}

// Get reads the lease. If it was deleted or has another holder, this process has lost the lease.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewedAt.IsZero() {
		l.wasHeldBefore = err == nil && record.HolderIdentity == l.Identity()
	}
	other := err == nil && record.HolderIdentity != l.Identity()
	if other || apierrors.IsNotFound(err) {
		l.renewedAt = time.Time{}
	}
	if other && l.acquired && !l.isTaken() {
		close(l.takenOver)
	}
	return record, raw, err
}

// Taken returns a channel that is closed once another process acquires this process's lease. The process must then
// exit.
func (l *Lease) Taken() <-chan struct{} { return l.takenOver }

// Restored returns a channel that is closed once etcd was restored from a backup. The process must then exit, because
// its caches are invalid.
func (l *Lease) Restored() <-chan struct{} { return l.revisions.restored }

func (l *Lease) isTaken() bool {
	select {
	case <-l.takenOver:
		return true
	default:
		return false
	}
}

// exitOnceLost returns an error once the process must exit (see Taken and Restored).
func (l *Lease) exitOnceLost(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.takenOver:
		return errTaken
	case <-l.revisions.restored:
		return errRestored
	}
}

// RecordEvent emits an Event about a new holder, except if a restarted process resumes its own lease.
func (l *Lease) RecordEvent(event string) {
	l.mu.Lock()
	resumed := l.wasHeldBefore
	l.wasHeldBefore = false
	l.mu.Unlock()
	if !resumed {
		l.Interface.RecordEvent(event)
	}
}

// Create acquires a new lease.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update acquires, renews or releases the lease. It skips early renewals.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == l.Identity() {
		if l.isTaken() {
			return errTaken
		}
		if l.age() < l.election.renewalInterval() {
			return nil
		}
	}
	return l.write(ctx, record, l.Interface.Update)
}

func (l *Lease) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	own := record.HolderIdentity == l.Identity()
	if own {
		record.LeaseDurationSeconds = int(l.election.Lease / time.Second)
	}
	sent := l.now()
	if err := write(ctx, record); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewedAt, l.acquired = sent, own; !own {
		l.renewedAt = time.Time{}
	}
	return nil
}

// age returns the time since the last renewal. It is infinite if this process does not hold the lease.
func (l *Lease) age() time.Duration {
	l.mu.Lock()
	renewed := l.renewedAt
	l.mu.Unlock()
	if renewed.IsZero() {
		return time.Duration(1<<63 - 1)
	}
	now := l.now()
	// Use both clocks, because the monotonic clock stops while the machine sleeps, and the wall clock can be changed.
	return max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0)))
}

// CheckHeld returns nil while no other process can hold the lease, and an error otherwise. A process must call
// CheckHeld before it writes to a server that does not check the lease, such as a registry.
//
// For a nil Lease, which means that leader election is disabled, CheckHeld always returns nil.
func (l *Lease) CheckHeld() error {
	if l != nil && l.age() > l.election.Lease-inFlight {
		return errExpired
	}
	return nil
}

func (l *Lease) hasLapsed() bool {
	if l.CheckHeld() == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acquired
}
