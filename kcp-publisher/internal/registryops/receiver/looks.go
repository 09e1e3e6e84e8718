package receiver

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// How often notifications lead to a look: once in lookInterval for one runtime, and so often for all of them together,
// in the order in which they came. A runtime that reports more often costs no more, and polls find what waits for
// longer than they do.
const (
	lookInterval   = 2 * time.Second
	looksPerSecond = 200
)

// Looks turns notifications into looks. It is safe for concurrent use.
type Looks struct {
	look  func(ctx context.Context, runtime string) error
	now   func() time.Time
	queue workqueue.TypedDelayingInterface[string]
	all   *rate.Limiter

	mu     sync.Mutex // guards looked
	looked map[string]time.Time
}

// NewLooks returns what calls look for each runtime that was notified of. Names of runtimes have to be known to exist.
func NewLooks(look func(ctx context.Context, runtime string) error, now func() time.Time) *Looks {
	return &Looks{
		look: look, now: now, queue: workqueue.NewTypedDelayingQueue[string](), all: rate.NewLimiter(looksPerSecond, looksPerSecond),
		looked: map[string]time.Time{},
	}
}

// Add asks for a look at a runtime: now, or once lookInterval has passed since the last one. However often it is called
// before, one look follows.
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
		if wait := l.due(runtime); wait > 0 { // it was looked at while it waited for that
			l.queue.AddAfter(runtime, wait)
		} else if l.all.Wait(ctx) == nil {
			l.note(runtime)
			_ = l.look(ctx, runtime) // what cannot be looked at now is polled
		}
		l.queue.Done(runtime)
	}
}

// note remembers a look, and forgets those that do not count any more.
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
