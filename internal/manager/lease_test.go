package manager

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type lock struct {
	resourcelock.Interface
	err    error
	holder string // the holder that Get returns
	events []string
	writes []resourcelock.LeaderElectionRecord
}

func (l *lock) RecordEvent(event string) { l.events = append(l.events, event) }
func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, l.err
}

func (l *lock) Identity() string { return "one" }
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *lock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.err == nil {
		l.writes = append(l.writes, record)
	}
	return l.err
}

// own is the record that client-go's elector writes for this process.
var own = resourcelock.LeaderElectionRecord{HolderIdentity: "one", LeaseDurationSeconds: 76}

// leaseOn returns a lease with a duration of 15 seconds, and the lease's clock.
func leaseOn(inner *lock) (*Lease, *time.Time) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	return &Lease{
		Interface: inner,
		election:  Replicas,
		now:       func() time.Time { return now },
		takenOver: make(chan struct{}),
		revisions: newRevisions(),
	}, &now
}

func TestLeaseCountsAsLostBeforeItExpires(t *testing.T) {
	inner := &lock{}
	l, now := leaseOn(inner)
	held := func(want bool, when string) {
		t.Helper()
		if err := l.CheckHeld(); (err == nil) != want {
			t.Errorf("%s: Held returned %v, want held: %t", when, err, want)
		}
	}
	held(false, "before the lease was acquired")
	if err := l.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	held(true, "after the lease was acquired")
	*now = now.Add(12 * time.Second)
	held(true, "shortly before the lease expires")
	inner.err = errors.New("no connection")
	if err := l.Update(t.Context(), own); err == nil {
		t.Fatal("Update returned no error although the request failed")
	}
	*now = now.Add(2 * time.Second)
	held(false, "14 s after the last renewal")
	inner.err = nil
	if err := l.Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	held(true, "after the lease was renewed")
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	held(false, "after the lease was released")
	if (*Lease)(nil).CheckHeld() != nil {
		t.Error("Held returned an error although leader election is disabled")
	}
}

// client-go's elector renews after each retry period and writes its own lease duration.
func TestLeaseIsRenewedEveryThirdOfItsDuration(t *testing.T) {
	inner := &lock{}
	l, now := leaseOn(inner)
	for range 30 { // 58 s
		if err := l.Update(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(2 * time.Second)
		if l.CheckHeld() != nil {
			t.Fatal("the lease expired between two renewals")
		}
	}
	if n := len(inner.writes); n < 9 || n > 11 {
		t.Errorf("got %d renewals in a minute, want about 10", n)
	}
	if got := inner.writes[0].LeaseDurationSeconds; got != 15 {
		t.Errorf("got a lease duration of %d s, want the configured 15 s", got)
	}
	released := resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}
	if err := l.Update(t.Context(), released); err != nil || inner.writes[len(inner.writes)-1] != released {
		t.Errorf("the release was not written: %v", err)
	}
}

func TestRestartOfTheLeaseHolderEmitsNoEvent(t *testing.T) {
	for holder, want := range map[string]int{"one": 1, "another": 2, "": 2} {
		inner := &lock{holder: holder}
		l, _ := leaseOn(inner)
		// client-go's elector makes these calls until the process exits.
		for range 2 {
			if _, _, err := l.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Update(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		l.RecordEvent("became leader")
		inner.holder = "one"
		if _, _, err := l.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.RecordEvent("stopped leading")
		if len(inner.events) != want || inner.events[want-1] != "stopped leading" {
			t.Errorf("previous holder %q: got events %q, want %d", holder, inner.events, want)
		}
	}
}

func TestLeaseWithAnotherHolderIsLostImmediately(t *testing.T) {
	for name, c := range map[string]struct {
		found lock
		taken bool
	}{
		"another holder": {lock{holder: "another"}, true},
		"no holder":      {lock{}, true},
		"deleted lease":  {lock{err: apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "one")}, false},
	} {
		inner := &lock{holder: "one"}
		l, _ := leaseOn(inner)
		if err := l.Create(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Get(t.Context()); err != nil || l.CheckHeld() != nil {
			t.Fatalf("%s: after acquiring the lease, Get returned %v and Held returned %v", name, err, l.CheckHeld())
		}
		*inner = lock{err: errors.New("no connection")}
		if _, _, err := l.Get(t.Context()); err == nil || l.CheckHeld() != nil {
			t.Errorf("%s: after a failed Get, Held returned %v, want nil", name, l.CheckHeld())
		}
		*inner = c.found
		_, _, _ = l.Get(t.Context())
		if l.CheckHeld() == nil || l.isTaken() != c.taken {
			t.Errorf("%s: Held returned %v and isTaken %t, want an error and %t", name, l.CheckHeld(), l.isTaken(), c.taken)
		}
		*inner = lock{holder: "one"}
		if err := l.Update(t.Context(), own); (err == nil) == c.taken {
			t.Errorf("%s: acquiring the lease again: got error %v, want an error: %t", name, err, c.taken)
		}
	}
}

func TestProcessExitsIfAnotherProcessAcquiresItsLease(t *testing.T) {
	inner := &lock{holder: "another"}
	l, _ := leaseOn(inner)
	if _, _, err := l.Get(t.Context()); err != nil || l.isTaken() {
		t.Fatalf("before acquiring the lease, Get returned %v and isTaken %t", err, l.isTaken())
	}
	if err := l.Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second Get must not close the channel again
		if _, _, err := l.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.exitOnceLost(t.Context()); !errors.Is(err, errTaken) {
		t.Errorf("got %v, want %v", err, errTaken)
	}
}
