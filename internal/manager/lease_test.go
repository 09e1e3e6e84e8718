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

// lock is a lease in the API server that writes fail for at times.
type lock struct {
	resourcelock.Interface
	err    error
	holder string // of the lease as it is read
	events []string
}

func (l *lock) RecordEvent(event string) { l.events = append(l.events, event) }
func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, l.err
}

func (l *lock) Identity() string { return "one" }
func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return l.err
}
func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	return l.err
}

func TestALeaseIsHeldAsLongAsNobodyElseCanHaveIt(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	inner := &lock{}
	l := &Lease{Interface: inner, duration: 15 * time.Second, now: func() time.Time { return now }}
	own := resourcelock.LeaderElectionRecord{HolderIdentity: "one"}
	held := func(want bool, when string) {
		t.Helper()
		if err := l.Held(); (err == nil) != want {
			t.Errorf("%s: held is %v", when, err)
		}
	}
	held(false, "before it was taken")
	if err := l.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	held(true, "once it was taken")
	now = now.Add(12 * time.Second)
	held(true, "shortly before its end")
	inner.err = errors.New("no connection")
	if err := l.Update(t.Context(), own); err == nil {
		t.Fatal("a failed renewal succeeded")
	}
	now = now.Add(2 * time.Second)
	held(false, "after a stop of 14 s")
	inner.err = nil
	if err := l.Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	held(true, "once it was renewed")
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	held(false, "once it was released")
	if (*Lease)(nil).Held() != nil {
		t.Error("without leader election nobody may work")
	}
}

func TestOnlyAnotherHolderOfTheLeaseIsAnEvent(t *testing.T) {
	for holder, want := range map[string]int{"one": 1, "another": 2, "": 2} {
		inner := &lock{holder: holder}
		l := &Lease{Interface: inner, duration: 15 * time.Second, now: time.Now}
		// What client-go's leader election does, until it ends by itself.
		for range 2 {
			if _, _, err := l.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "one"}); err != nil {
			t.Fatal(err)
		}
		l.RecordEvent("became leader")
		inner.holder = "one"
		if _, _, err := l.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.RecordEvent("stopped leading")
		if len(inner.events) != want || inner.events[want-1] != "stopped leading" {
			t.Errorf("the holder before was %q: events %q", holder, inner.events)
		}
	}
}

// TestALeaseThatSomebodyElseHasIsLostAtOnce: it was deleted or taken by hand, and would have lasted for longer.
func TestALeaseThatSomebodyElseHasIsLostAtOnce(t *testing.T) {
	for name, found := range map[string]lock{
		"another holder": {holder: "another"},
		"no holder":      {},
		"no lease":       {err: apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "one")},
	} {
		inner := &lock{holder: "one"}
		l := &Lease{Interface: inner, duration: 15 * time.Second, now: time.Now}
		own := resourcelock.LeaderElectionRecord{HolderIdentity: "one"}
		if err := l.Create(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Get(t.Context()); err != nil || l.Held() != nil {
			t.Fatalf("%s: the own lease: %v, held is %v", name, err, l.Held())
		}
		*inner = lock{err: errors.New("no connection")}
		if _, _, err := l.Get(t.Context()); err == nil || l.Held() != nil {
			t.Errorf("%s: before anything is known of it, held is %v", name, l.Held())
		}
		*inner = found
		_, _, _ = l.Get(t.Context())
		if l.Held() == nil {
			t.Errorf("%s: it is still held", name)
		}
		*inner = lock{holder: "one"}
		if err := l.Update(t.Context(), own); err != nil || l.Held() != nil {
			t.Errorf("%s: once it was taken again: %v, held is %v", name, err, l.Held())
		}
	}
}
