package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/internal/manager"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
)

// Planner is the part number of the planner. All other part numbers identify shards.
const Planner = -1

const (
	pollInterval = time.Second
	// A new process acquires Leases only after joinDelay, so that it can first find other processes that start at the
	// same time.
	joinDelay = 2*heartbeatInterval + readInterval
)

// Replica runs the parts that are assigned to this process. A part is a shard or the planner.
type Replica struct {
	Board *Board
	Parts *manager.Parts
	// Shards is the number of shards in the fleet.
	Shards int
	// Leases returns the name of a part's Lease.
	Leases func(part int) string
	// RunPart runs a part until the context ends. It is called while this process holds the part's Lease.
	RunPart func(ctx context.Context, part int, lease *manager.Lease) error

	mu        sync.Mutex // guards the fields below
	holders   map[int]string
	startedAt time.Time
}

// NeedLeaderElection returns false, because every process runs a Replica.
func (r *Replica) NeedLeaderElection() bool { return false }

// Start acquires, runs and releases parts until the context ends. It returns an error if this process loses a Lease or
// a part fails.
func (r *Replica) Start(ctx context.Context) error {
	r.holders, r.startedAt = map[int]string{}, time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for part := Planner; part < r.Shards; part++ {
		all.Go(func() {
			if err := r.acquirePart(ctx, part); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// mustRunPart reports whether this process must run a part. isRunning is true if it already runs the part. While the
// list of live processes may be outdated, it returns isRunning.
func (r *Replica) mustRunPart(part int, isRunning bool) bool {
	members, known := r.Board.Members()
	if !known || time.Since(r.startedAt) < joinDelay {
		return isRunning
	}
	if part == Planner {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	held := make(map[int]string, len(r.holders))
	for at, holder := range r.holders {
		if at != Planner {
			held[at] = holder
		}
	}
	return shard.Assign(r.Shards, held, members)[part] == r.Parts.Holder
}

func (r *Replica) acquirePart(ctx context.Context, part int) error {
	for ctx.Err() == nil {
		lease, err := r.Parts.Lease(r.Leases(part))
		if err != nil {
			return err
		}
		if err := r.holdPart(ctx, part, lease); err != nil {
			return err
		}
	}
	return nil
}

// holdPart acquires the Lease of a part and runs the part. It releases the Lease only after the part has stopped.
func (r *Replica) holdPart(ctx context.Context, part int, lease *manager.Lease) error {
	taken := make(chan struct{})
	election, release := r.Parts.Election()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &leaseCandidate{lease, r, part}, LeaseDuration: election.Lease, RenewDeadline: election.Renew,
		RetryPeriod:     election.Retry,
		ReleaseOnCancel: release, Name: r.Leases(part),
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(taken) }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("set up the election for %s: %w", r.Leases(part), err)
	}
	// Discard the log of the elector. It would log an error whenever leaseCandidate refuses to acquire a Lease whose
	// part is assigned to another process.
	electing, giveUp := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	lost := make(chan struct{})
	go func() {
		elector.Run(electing)
		close(lost)
	}()
	defer func() {
		giveUp()
		<-lost
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-taken:
	}
	return r.runPart(ctx, part, lease, lost)
}

// runPart runs a part until the part is assigned to another process. If this process loses the Lease, runPart returns
// an error and the process must exit, because running work cannot be canceled.
func (r *Replica) runPart(ctx context.Context, part int, lease *manager.Lease, lost <-chan struct{}) error {
	name := r.Leases(part)
	log := ctrl.LoggerFrom(ctx).WithName("replica").WithValues("lease", name)
	log.Info("acquired a lease, starting its shard or the planner")
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.RunPart(working, part, lease) }()
	defer stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for unwanted := 0; ; {
		select {
		case err := <-ended:
			if ctx.Err() == nil && working.Err() == nil && err == nil {
				err = errors.New("stopped unexpectedly")
			}
			if err != nil {
				return fmt.Errorf("run the shard or planner of lease %s: %w", name, err)
			}
			log.Info("stopped the work, releasing the lease")
			return nil
		case <-lease.Taken():
			return fmt.Errorf("lease %s is lost: another replica acquired it", name)
		case <-lease.Restored():
			return fmt.Errorf("lease %s: the control plane returned to an earlier state, restarting", name)
		case <-lost:
			return fmt.Errorf("lease %s is lost", name)
		case <-tick.C:
		}
		if unwanted++; r.mustRunPart(part, true) {
			unwanted = 0
		}
		if unwanted > 1 {
			stop()
		}
	}
}

// leaseCandidate is a part's Lease. It lets the elector acquire the Lease only if the part is assigned to this process.
type leaseCandidate struct {
	*manager.Lease
	replica *Replica
	part    int
}

var errOtherReplica = errors.New("the shard or planner is assigned to another replica")

func (c *leaseCandidate) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := c.Lease.Get(ctx)
	if err == nil {
		c.replica.mu.Lock()
		defer c.replica.mu.Unlock()
		c.replica.holders[c.part] = record.HolderIdentity
	}
	return record, raw, err
}

func (c *leaseCandidate) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if !c.replica.mustRunPart(c.part, false) {
		return errOtherReplica
	}
	return c.recordHolder(record, c.Lease.Create(ctx, record))
}

func (c *leaseCandidate) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == c.Identity() && c.CheckHeld() != nil && !c.replica.mustRunPart(c.part, false) {
		return errOtherReplica
	}
	return c.recordHolder(record, c.Lease.Update(ctx, record))
}

func (c *leaseCandidate) recordHolder(record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		c.replica.mu.Lock()
		defer c.replica.mu.Unlock()
		c.replica.holders[c.part] = record.HolderIdentity
	}
	return err
}
