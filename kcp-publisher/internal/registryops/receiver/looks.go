package receiver

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// Limits of the reads that notifications cause: one per lookInterval for one runtime, and a rate for all runtimes
// together, in the order of the notifications. A runtime that reports more often costs no more. Polls cover runtimes
// that wait longer than the poll interval.
const (
	lookInterval   = 2 * time.Second
	looksPerSecond = 200
)

// Looks turns notifications into reads of the registry. It is safe for concurrent use.
type Looks struct {
	look  func(ctx context.Context, runtime string) error
	now   func() time.Time
	queue workqueue.TypedDelayingInterface[string]
	all   *rate.Limiter

	mu     sync.Mutex // guards looked
	looked map[string]time.Time
}

// NewLooks returns Looks that call look for each notified runtime. The caller must check that the runtime exists.
func NewLooks(look func(ctx context.Context, runtime string) error, now func() time.Time) *Looks {
	return &Looks{
		look: look, now: now, queue: workqueue.NewTypedDelayingQueue[string](),
		all:    rate.NewLimiter(looksPerSecond, looksPerSecond),
		looked: map[string]time.Time{},
	}
}

// Add requests a look at a runtime: now, or once lookInterval has passed since the last one. Repeated calls before that
// cause only one look.
func (l *Looks) Add(runtime string) {
	l.queue.AddAfter(runtime, l.due(runtime))
}

// due returns how long a runtime has to wait for its next look.
func (l *Looks) due(runtime string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.looked[runtime].Add(lookInterval).Sub(l.now())
}

// Start calls look until ctx ends.
func (l *Looks) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, l.queue.ShutDown)()
	for {
		runtime, ended := l.queue.Get()
		if ended {
			return nil
		}
		if wait := l.due(runtime); wait > 0 { // a look happened while this one waited
			l.queue.AddAfter(runtime, wait)
		} else if l.all.Wait(ctx) == nil {
			l.note(runtime)
			_ = l.look(ctx, runtime) // the next poll covers the rest
		}
		l.queue.Done(runtime)
	}
}

// note records a look, and forgets expired ones.
func (l *Looks) note(runtime string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if len(l.looked) >= looksPerSecond*10 {
		for other, at := range l.looked {
			if at.Add(lookInterval).Before(now) {
				delete(l.looked, other)
			}
		}
	}
	l.looked[runtime] = now
}
