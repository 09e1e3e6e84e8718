// Package resident keeps the agent's resident memory small while it has little to do. Nothing goes in; while Keep runs, memory that is not used goes
// back to the kernel. It promises that nothing changes but that: what is needed again is mapped again.
package resident

import (
	"context"
	"runtime/debug"
	"time"
)

const (
	// lookInterval is how often it is looked what the program did, and shortest the shortest time between two times that memory is given back.
	lookInterval, shortest = 5 * time.Second, 15 * time.Second
	// atWork is how much processor time within one look is work. A look at the registry that brings nothing new takes about as much.
	atWork = 8 * time.Millisecond
	// worthCollecting is after how much processor time there is garbage worth the 10 ms that it takes to collect it.
	worthCollecting = 50 * time.Millisecond
)

// Keep gives memory back whenever the program rests after work, until the context ends. While it works it collects garbage as Go does by default:
// GOGC=40 would save 4 MiB and cost half as much processor time again.
func Keep(ctx context.Context) error {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	var r rest
	var collected time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-look.C:
			used := processorTime()
			if !r.begins(now, used) {
				continue
			}
			if used-collected >= worthCollecting {
				debug.FreeOSMemory()
				collected = processorTime()
			}
			giveBackProgram()
			used = processorTime()
			r = rest{since: now, last: used, used: used}
		}
	}
}

// rest tells when a program rests after work.
type rest struct {
	// since is when memory was given back, and used the processor time then; last is that of the last look.
	since      time.Time
	used, last time.Duration
}

// begins reports whether the program worked since memory was given back last, and does not any more.
func (r *rest) begins(now time.Time, used time.Duration) bool {
	before := r.last
	r.last = used
	return used-before < atWork && used-r.used >= atWork && now.Sub(r.since) >= shortest
}
