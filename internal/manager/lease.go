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

// Election configures how a lease is renewed and acquired.
type Election struct {
	// Lease is the time that other replicas wait before they acquire a lease that its holder stopped renewing.
	Lease time.Duration
	// Renew is the time that the holder retries a failed renewal before its process exits. It can be longer than Lease:
	// an expired lease blocks all writes of its former holder, and the process continues if no other one acquired it.
	Renew time.Duration
	// Retry is the time between two attempts to acquire a lease, or to repeat a failed renewal.
	Retry time.Duration
}

// Replicas is for a program with several replicas: another one takes over soon, and an unresponsive API server ends
// none of them for a minute. Single is for a program with one replica in a cluster that it must not load: it sends one
// renewal per minute. A restarted process does not wait for either lease to expire, see identity.
var (
	Replicas = Election{Lease: 15 * time.Second, Renew: 75 * time.Second, Retry: 2 * time.Second}
	Single   = Election{Lease: 3 * time.Minute, Renew: 100 * time.Second, Retry: 2 * time.Second}
)

// renewal returns the time between two renewals. Two of them can fail before the lease expires.
func (e Election) renewal() time.Duration { return e.Lease / 3 }

// Elector returns the settings for the elector of client-go, which requires a lease longer than the renew deadline.
// Lease writes the configured duration to the API server.
func (e Election) Elector() Election {
	e.Lease = max(e.Lease, e.Renew+time.Second)
	return e
}

// maxRequestTime limits one request for a lease, so that a hanging connection leaves time for other attempts.
const maxRequestTime = 10 * time.Second

// inFlight is the time before its expiry at which a lease counts as lost: a write must arrive while the lease is valid.
const inFlight = 2 * time.Second

var (
	// errExpired reports that another process may hold the lease.
	errExpired = errors.New("the lease was not renewed in time, another process may hold it")
	// errTaken reports that another process acquired the lease while this one held it.
	errTaken = errors.New("leader election lost: another process acquired the lease")
)

// Lease is the lease that allows a process to write. It skips renewals that are not needed yet, because the elector of
// client-go renews as often as it retries.
type Lease struct {
	resourcelock.Interface
	election Election
	now      func() time.Time
	// taken is closed once another process acquired the lease while this one held it.
	taken     chan struct{}
	revisions *revisions

	mu sync.Mutex // guards all fields below
	// renewed is the time when the last successful renewal was sent, zero if the lease is not held.
	renewed time.Time
	// acquired reports that this process acquired the lease and did not release it.
	acquired bool
	// resumed reports that the lease was already held under the identity of this process when it started.
	resumed bool
}

// newLease returns a lease. Its holder is this process.
func newLease(config *rest.Config, namespace, name string, election Election) (*Lease, error) {
	holder, err := identity(config.Host + "/" + namespace + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("name the holder of lease %s/%s: %w", namespace, name, err)
	}
	return newLeaseOf(config, holder, namespace, name, election)
}

func newLeaseOf(config *rest.Config, holder, namespace, name string, election Election) (*Lease, error) {
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
		taken:     make(chan struct{}),
		revisions: revisions,
	}, nil
}

// recordWith sets the recorder of the Events that report another holder.
func (l *Lease) recordWith(recorder resourcelock.EventRecorder) {
	if lock, ok := l.Interface.(*resourcelock.LeaseLock); ok {
		lock.LockConfig.EventRecorder = recorder
	}
}

// Get reads the lease. A lease that was deleted or has another holder is lost at once, although it has not expired.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() {
		l.resumed = err == nil && record.HolderIdentity == l.Identity()
	}
	other := err == nil && record.HolderIdentity != l.Identity()
	if other || apierrors.IsNotFound(err) {
		l.renewed = time.Time{}
	}
	if other && l.acquired && !l.isTaken() {
		close(l.taken)
	}
	return record, raw, err
}

// Taken returns a channel that is closed once another process acquired the lease while this one held it. The process
// must exit then: its own elector would only retry until the renew deadline.
func (l *Lease) Taken() <-chan struct{} { return l.taken }

// Restored returns a channel that is closed once the API server returned to an earlier state. The process must exit
// then, because its caches are wrong.
func (l *Lease) Restored() <-chan struct{} { return l.revisions.restored }

func (l *Lease) isTaken() bool {
	select {
	case <-l.taken:
		return true
	default:
		return false
	}
}

// exitOnceLost returns an error once the process must exit. It is a Runnable of the manager.
func (l *Lease) exitOnceLost(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.taken:
		return errTaken
	case <-l.revisions.restored:
		return errRestored
	}
}

// RecordEvent emits an Event for a change of the holder. A restarted container that continues with its lease changes
// nothing.
func (l *Lease) RecordEvent(event string) {
	l.mu.Lock()
	resumed := l.resumed
	l.resumed = false
	l.mu.Unlock()
	if !resumed {
		l.Interface.RecordEvent(event)
	}
}

// Create acquires a lease that does not exist.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update acquires, renews or releases the lease. A renewal that is not needed yet succeeds without a request.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == l.Identity() {
		if l.isTaken() {
			return errTaken
		}
		if l.age() < l.election.renewal() {
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
	if l.renewed, l.acquired = sent, own; !own {
		l.renewed = time.Time{}
	}
	return nil
}

// age returns the time since the last renewal, or more than any lease lasts if the lease is not held.
func (l *Lease) age() time.Duration {
	l.mu.Lock()
	renewed := l.renewed
	l.mu.Unlock()
	if renewed.IsZero() {
		return time.Duration(1<<63 - 1)
	}
	now := l.now()
	// Compare both clocks: the monotonic clock stops while a machine sleeps, and the wall clock can be set.
	return max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0)))
}

// Held returns nil while no other process can hold the lease. A process that was suspended or cut off from the API
// server does not notice immediately that it lost the lease. It must call Held before it writes to a server that
// accepts two writers, such as a registry. A nil Lease means no leader election, and is always held.
func (l *Lease) Held() error {
	if l != nil && l.age() > l.election.Lease-inFlight {
		return errExpired
	}
	return nil
}

// lapsed reports whether the process held the lease and may have lost it.
func (l *Lease) lapsed() bool {
	if l.Held() == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acquired
}
