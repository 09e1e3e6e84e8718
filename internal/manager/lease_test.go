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

// lock is a lease in an API server whose requests can fail.
type lock struct {
	resourcelock.Interface
	err    error
	holder string // of the lease as it is read
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

// own is the record that client-go writes for the holder.
var own = resourcelock.LeaderElectionRecord{HolderIdentity: "one", LeaseDurationSeconds: 76}

// leaseOn returns a lease of 15 s, and its clock.
func leaseOn(inner *lock) (*Lease, *time.Time) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	return &Lease{
		Interface: inner,
		election:  Replicas,
		now:       func() time.Time { return now },
		taken:     make(chan struct{}),
		revisions: newRevisions(),
	}, &now
}

func TestLeaseIsHeldUntilAnotherProcessCanAcquireIt(t *testing.T) {
	inner := &lock{}
	l, now := leaseOn(inner)
	held := func(want bool, when string) {
		t.Helper()
		if err := l.Held(); (err == nil) != want {
			t.Errorf("%s: held is %v", when, err)
		}
	}
	held(false, "before it was acquired")
	if err := l.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	held(true, "once acquired")
	*now = now.Add(12 * time.Second)
	held(true, "shortly before its expiry")
	inner.err = errors.New("no connection")
	if err := l.Update(t.Context(), own); err == nil {
		t.Fatal("a failed renewal succeeded")
	}
	*now = now.Add(2 * time.Second)
	held(false, "14 s after the last renewal")
	inner.err = nil
	if err := l.Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	held(true, "once renewed")
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	held(false, "once released")
	if (*Lease)(nil).Held() != nil {
		t.Error("without leader election, writes are refused")
	}
}

// client-go renews as often as it retries, and with the lease duration of the elector.
func TestLeaseIsRenewedEveryThirdOfItsDuration(t *testing.T) {
	inner := &lock{}
	l, now := leaseOn(inner)
	for range 30 { // 58 s
		if err := l.Update(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(2 * time.Second)
		if l.Held() != nil {
			t.Fatal("the lease expired between two renewals")
		}
	}
	if n := len(inner.writes); n < 9 || n > 11 {
		t.Errorf("%d renewals in a minute, want about 10", n)
	}
	if got := inner.writes[0].LeaseDurationSeconds; got != 15 {
		t.Errorf("other replicas wait %d s, want the 15 s of the flag", got)
	}
	released := resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}
	if err := l.Update(t.Context(), released); err != nil || inner.writes[len(inner.writes)-1] != released {
		t.Errorf("the release was not written: %v", err)
	}
}

func TestRestartWithTheSameHolderEmitsNoEvent(t *testing.T) {
	for holder, want := range map[string]int{"one": 1, "another": 2, "": 2} {
		inner := &lock{holder: holder}
		l, _ := leaseOn(inner)
		// The calls of client-go's leader election until the process ends.
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
			t.Errorf("previous holder %q: events %q", holder, inner.events)
		}
	}
}

// An operator can delete or edit a lease that has not expired.
func TestLeaseOfAnotherHolderIsLostAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		found lock
		taken bool
	}{
		"another holder": {lock{holder: "another"}, true},
		"no holder":      {lock{}, true},
		"no lease":       {lock{err: apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "one")}, false},
	} {
		inner := &lock{holder: "one"}
		l, _ := leaseOn(inner)
		if err := l.Create(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Get(t.Context()); err != nil || l.Held() != nil {
			t.Fatalf("%s: the own lease: %v, held is %v", name, err, l.Held())
		}
		*inner = lock{err: errors.New("no connection")}
		if _, _, err := l.Get(t.Context()); err == nil || l.Held() != nil {
			t.Errorf("%s: without a response, held is %v", name, l.Held())
		}
		*inner = c.found
		_, _, _ = l.Get(t.Context())
		if l.Held() == nil || l.isTaken() != c.taken {
			t.Errorf("%s: held is %v, taken is %t", name, l.Held(), l.isTaken())
		}
		*inner = lock{holder: "one"}
		if err := l.Update(t.Context(), own); (err == nil) == c.taken {
			t.Errorf("%s: acquired again: %v", name, err)
		}
	}
}

func TestProcessExitsOnceItsLeaseIsTaken(t *testing.T) {
	inner := &lock{holder: "another"}
	l, _ := leaseOn(inner)
	if _, _, err := l.Get(t.Context()); err != nil || l.isTaken() {
		t.Fatalf("a replica that never held the lease: %v, taken is %t", err, l.isTaken())
	}
	if err := l.Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second read must not close the channel again
		if _, _, err := l.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.exitOnceLost(t.Context()); !errors.Is(err, errTaken) {
		t.Errorf("got %v", err)
	}
}
