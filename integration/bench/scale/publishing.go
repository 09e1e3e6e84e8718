package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/integration/bench/process"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// waitUntil is like fleet.Until, but also returns an error if the publisher ends.
func (w *world) waitUntil(ctx context.Context, what string, seen func() (bool, string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := fleet.Until(ctx, w.limit(), what, func() (bool, string) {
		ok, state := seen()
		if !ok && w.publisher != nil && !w.publisher.running() {
			cancel(fmt.Errorf("the publisher exited while the benchmark waited until %s", what))
		}
		return ok, state
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// seeding creates the Kymas.
func (w *world) seeding(ctx context.Context) error {
	started := time.Now()
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range w.Runtimes {
		group.Go(func() error { return w.control.Create(within, newKyma(i)) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("create Kymas: %w", err)
	}
	took := time.Since(started)
	w.add(took.Seconds(), seconds, "all Kymas are created",
		fmt.Sprintf("%.0f a second, %d writers", float64(w.Runtimes)/took.Seconds(), writers))
	w.kymas = watchKymas(ctx, w.api)
	return nil
}

// pushed is the result of untilPushed.
type pushed struct {
	tenth, half, all time.Duration
	traffic          requestCounts // registry requests until the bundle of the last runtime arrived
	spent            cpuTimes
	started          time.Time
	were             map[string]string // digest of each Kyma's previous bundle
}

// untilPushed waits until the registry has received a bundle for every runtime. It ignores bundles that arrived before
// the time started.
func (w *world) untilPushed(
	ctx context.Context, started time.Time, before requestCounts, spent cpuTimes,
) (pushed, error) {
	var p pushed
	err := w.waitUntil(ctx, "every runtime's bundle is in the registry", func() (bool, string) {
		now, err := w.registry.totalTraffic(ctx)
		if err != nil {
			return false, err.Error()
		}
		p.traffic = now.requestsSince(before)
		came, err := w.registry.countArrived(ctx, started)
		if err != nil {
			return false, err.Error()
		}
		if p.tenth == 0 && came.N >= int64(w.Runtimes/10) {
			p.tenth = time.Since(started)
		}
		if p.half == 0 && came.N >= int64(w.Runtimes/2) {
			p.half = time.Since(started)
		}
		p.all = came.Last.Sub(started)
		return came.N == int64(w.Runtimes), fmt.Sprintf("%d of %d", came.N, w.Runtimes)
	})
	p.spent = w.taken().since(spent)
	return p, err
}

// per formats n divided by the number of runtimes.
func (w *world) per(n float64) string { return fmt.Sprintf("%.2f", n/float64(w.Runtimes)) }

// measureFirstPublish measures the start of a publisher for a fleet without published bundles.
func (w *world) measureFirstPublish(ctx context.Context) error {
	before, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return err
	}
	spent, started := w.taken(), time.Now()
	if err := w.startPublisher(nil); err != nil {
		return err
	}
	p, err := w.untilPushed(ctx, started, before, spent)
	if err != nil {
		return err
	}
	w.add(p.all.Seconds(), seconds, "start -> every bundle is in the registry",
		fmt.Sprintf("a tenth after %.1f s, half after %.1f s", p.tenth.Seconds(), p.half.Seconds()))
	err = w.waitUntil(ctx, "every Kyma names its bundle", func() (bool, string) {
		n, other, _ := w.kymas.count(func(_ string, r record) bool { return r.Published != "" })
		return n == w.Runtimes, fmt.Sprintf("%d of %d; %s", n, w.Runtimes, other)
	})
	if err != nil {
		return err
	}
	_, _, last := w.kymas.count(func(string, record) bool { return true })
	w.add(last.Sub(started).Seconds(), seconds, "start -> every Kyma's status names its bundle", "")
	return w.recordMemory("publisher's memory, before any runtime reports")
}

func (w *world) recordMemory(what string) error {
	u, err := process.UsageOf(w.pid("publisher"))
	if err != nil {
		return err
	}
	w.add(float64(u.Resident), size, what, "")
	w.add(float64(u.Peak), size, what+": its peak in this stage", "")
	return process.ResetPeak(w.pid("publisher"))
}

// isUpToDate reports whether a Kyma shows its runtime as ready with the newest bundle.
func (w *world) isUpToDate(_ string, r record) bool {
	return r.State == "Ready" && r.ModuleState == "Ready" && r.Version == promotedVersion(w.version) &&
		r.Published != "" && r.Observed == r.Published
}

// untilRight waits until the function counts returns true for the wanted number of Kymas. It returns the time of the
// last change to a Kyma.
func (w *world) untilRight(ctx context.Context, wanted int, counts func(id string, r record) bool) (time.Time, error) {
	var last time.Time
	err := w.waitUntil(ctx,
		fmt.Sprintf("%d Kymas show their runtime as ready with %s %s", wanted, promotedModule,
			promotedVersion(w.version)), func() (bool, string) {
			n, other, changed := w.kymas.count(counts)
			last = changed
			return n >= wanted, fmt.Sprintf("%d of %d; %s", n, wanted, other)
		})
	return last, err
}

// converge waits until every runtime is ready with the newest bundle, and then suspends all agents.
func (w *world) converge(ctx context.Context) error {
	w.agents.resume(true)
	_, err := w.untilRight(ctx, w.Runtimes, w.isUpToDate)
	w.agents.suspend()
	w.pending = false
	return err
}

// measureEnrollment measures the enrollment of all agents. It starts all agents at once. The publisher then enrolls
// each agent's key and publishes a second bundle.
func (w *world) measureEnrollment(ctx context.Context) error {
	traffic, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return err
	}
	before, err := w.writes(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	w.agents.startAll(ctx)
	last, err := w.untilRight(ctx, w.Runtimes, w.isUpToDate)
	if err != nil {
		return err
	}
	w.agents.suspend()
	after, err := w.writes(ctx)
	if err != nil {
		return err
	}
	now, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return err
	}
	now = now.requestsSince(traffic)
	w.add(last.Sub(started).Seconds(), seconds, "agents start -> every Kyma is Ready", "with agents' polls")
	w.add(after.since(before)[statusPatches]/float64(w.Runtimes), number, "status patches for each runtime", "")
	w.add(float64(now.n(publisherHost, http.MethodPut, aboutBundles))/float64(w.Runtimes), number,
		"bundles pushed for each runtime", "")
	w.add(float64(now.n(agentsHost, http.MethodPut, aboutReports))/float64(w.Runtimes), number,
		"reports of each runtime", "")
	return w.recordMemory("publisher's memory, all have reported")
}
