package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// quietTime is the time without requests, except polls, after which a publisher counts as idle.
const quietTime = 5 * time.Second

// pollsPerSecond returns the maximum rate of a publisher's polls in an idle fleet.
func (w *world) pollsPerSecond() float64 { return 1.5*float64(w.Runtimes)/30 + 5 }

// untilIdle waits until the publisher has reconciled every Kyma and only polls the registry. It returns the elapsed
// time.
func (w *world) untilIdle(ctx context.Context, since time.Time) (time.Duration, error) {
	window, heads, others := time.Now(), int64(-1), int64(-1)
	err := w.waitUntil(ctx, "the publisher is idle", func() (bool, string) {
		now, err := w.registry.totalTraffic(ctx)
		if err != nil {
			return false, err.Error()
		}
		asked := int64(0)
		for key, n := range now {
			// After a restart, the publisher reads each report at its next poll, so count these requests as polls.
			if key.From == publisherHost && (key.Method == http.MethodHead || key.About == aboutReports) {
				asked += n.N
			}
		}
		other := now.total(publisherHost) - asked
		still := time.Since(window)
		if other != others || float64(asked-heads) > w.pollsPerSecond()*(still.Seconds()+1) {
			window, heads, others = time.Now(), asked, other
			return false, "the publisher is working"
		}
		if still < quietTime {
			return false, "the publisher is quiet"
		}
		f, err := w.publisherMetrics(ctx)
		if err != nil {
			window = time.Now()
			return false, err.Error()
		}
		runtimes := int(f.sum("kyma_pull_publisher_runtimes", nil))
		if runtimes < w.Runtimes {
			window = time.Now()
		}
		return runtimes >= w.Runtimes, fmt.Sprintf("the publisher has reconciled %d of %d Kymas", runtimes, w.Runtimes)
	})
	return window.Sub(since), err
}

// restartPublisher kills the publisher and starts another one with the same Lease identity, as when a container
// restarts in its Pod.
func (w *world) restartPublisher(within *memoryLimit) (started time.Time, err error) {
	if err := w.killPublisher(); err != nil {
		return started, err
	}
	return time.Now(), w.startPublisher(within)
}

// measureRestart measures the restart of a killed publisher in an idle fleet.
func (w *world) measureRestart(ctx context.Context) error {
	if w.pending {
		if err := w.converge(ctx); err != nil {
			return err
		}
	}
	traffic, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return err
	}
	writes, err := w.writes(ctx)
	if err != nil {
		return err
	}
	cpu := w.cpu("publisher")
	started, err := w.restartPublisher(nil)
	if err != nil {
		return err
	}
	took, err := w.untilIdle(ctx, started)
	if err != nil {
		return err
	}
	now, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return err
	}
	written, err := w.writes(ctx)
	if err != nil {
		return err
	}
	now, written = now.requestsSince(traffic), written.since(writes)
	w.add(took.Seconds(), seconds, "start after kill -9 -> idle",
		"like a restarted container, with the Lease of the killed process")
	w.add((w.cpu("publisher") - cpu).Seconds(), "CPU s", "publisher", "")
	w.add(float64(now.total(publisherHost)), number, "registry requests",
		"polls included: "+now.requestsOf(publisherHost).String())
	w.add(written.total(), number, "API writes, without leases", written.String())
	return w.recordMemory("publisher's memory")
}

// requestsOf returns the requests of one sender.
func (c requestCounts) requestsOf(from string) requestCounts {
	some := requestCounts{}
	for key, value := range c {
		if key.From == from {
			some[key] = value
		}
	}
	return some
}

// measureMemoryLimit measures a restart and a promotion with the memory limit of a production publisher.
func (w *world) measureMemoryLimit(ctx context.Context) (err error) {
	if w.pending {
		if err := w.converge(ctx); err != nil {
			return err
		}
	}
	limit := newMemoryLimit(w.MemoryLimit)
	defer func() {
		if end := w.killPublisher(); err == nil {
			err = end
		}
		if end := limit.remove(); err == nil {
			err = end
		}
	}()
	started, err := w.restartPublisher(limit)
	if err != nil {
		return err
	}
	took, err := w.untilIdle(ctx, started)
	if err != nil {
		return err
	}
	w.add(took.Seconds(), seconds, "start -> idle", fmt.Sprintf("%d MiB, by %s", w.MemoryLimit>>20, limit.mechanism))
	p, err := w.push(ctx)
	if err != nil {
		return err
	}
	w.add(p.all.Seconds(), seconds, "edit -> last bundle in the registry", "")
	if _, err := w.untilNamed(ctx, p); err != nil {
		return err
	}
	if _, err := w.respond(ctx, w.Runtimes, w.isUpToDate); err != nil {
		return err
	}
	return w.recordMemory("publisher's memory")
}
