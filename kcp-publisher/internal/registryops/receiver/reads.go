package receiver

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// Limits for reads after notifications: one read per readInterval for each runtime, and readsPerSecond for all
// runtimes.
const (
	readInterval   = 2 * time.Second
	readsPerSecond = 200
)

// ReadQueue reads notified runtimes' reports at a limited rate. It is safe for concurrent use.
type ReadQueue struct {
	read       func(ctx context.Context, runtime string) error
	now        func() time.Time
	queue      workqueue.TypedDelayingInterface[string]
	totalLimit *rate.Limiter

	mu       sync.Mutex // guards lastRead
	lastRead map[string]time.Time
}

// NewReads returns a ReadQueue that calls read for each notified runtime. The caller must check that the runtime
// exists.
func NewReads(read func(ctx context.Context, runtime string) error, now func() time.Time) *ReadQueue {
	return &ReadQueue{
		read: read, now: now, queue: workqueue.NewTypedDelayingQueue[string](),
		totalLimit: rate.NewLimiter(readsPerSecond, readsPerSecond),
		lastRead:   map[string]time.Time{},
	}
}

// Add requests a read of a runtime's report. Repeated calls before the read cause only one read.
func (l *ReadQueue) Add(runtime string) {
	l.queue.AddAfter(runtime, l.wait(runtime))
}

// wait returns the time until a runtime's report can be read again.
func (l *ReadQueue) wait(runtime string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastRead[runtime].Add(readInterval).Sub(l.now())
}

// Start calls read for the notified runtimes until ctx ends.
func (l *ReadQueue) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, l.queue.ShutDown)()
	for {
		runtime, ended := l.queue.Get()
		if ended {
			return nil
		}
		if wait := l.wait(runtime); wait > 0 { // the report was read while this request waited
			l.queue.AddAfter(runtime, wait)
		} else if l.totalLimit.Wait(ctx) == nil {
			l.recordRead(runtime)
			_ = l.read(ctx, runtime) // after an error, the next poll reads the report
		}
		l.queue.Done(runtime)
	}
}

func (l *ReadQueue) recordRead(runtime string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if len(l.lastRead) >= readsPerSecond*10 {
		for other, at := range l.lastRead {
			if at.Add(readInterval).Before(now) {
				delete(l.lastRead, other)
			}
		}
	}
	l.lastRead[runtime] = now
}
