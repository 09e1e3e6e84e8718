package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// push promotes the module while all agents are suspended, and waits until every runtime's new bundle is in the
// registry.
func (w *world) push(ctx context.Context) (pushed, error) {
	were := map[string]string{}
	w.kymas.count(func(id string, r record) bool { were[id] = r.Published; return true })
	before, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return pushed{}, err
	}
	spent, started := w.taken(), time.Now()
	if err := w.promote(ctx); err != nil {
		return pushed{}, err
	}
	w.pending = true
	p, err := w.untilPushed(ctx, started, before, spent)
	p.started, p.were = started, were
	w.mounts = (p.traffic.n(publisherHost, http.MethodPost, aboutMounts) + int64(w.Runtimes)/2) / int64(w.Runtimes)
	return p, err
}

// untilNamed waits until every Kyma's status contains the digest of its pushed bundle. It returns the time from the
// promotion to the last of these status changes.
func (w *world) untilNamed(ctx context.Context, p pushed) (time.Duration, error) {
	var last time.Time
	err := w.waitUntil(ctx, "every Kyma names its new bundle", func() (bool, string) {
		n, other, changed := w.kymas.count(func(id string, r record) bool { return r.Published != p.were[id] })
		last = changed
		return n == w.Runtimes, fmt.Sprintf("%d of %d; %s", n, w.Runtimes, other)
	})
	return last.Sub(p.started), err
}

// measurePromotion measures a promotion. It records the time, CPU usage and requests until the last bundle is in the
// registry, and the time until every Kyma's status contains the runtime's new bundle.
func (w *world) measurePromotion(ctx context.Context) error {
	p, err := w.push(ctx)
	if err != nil {
		return err
	}
	w.promoted, w.promotedCPU = p.all, p.spent.by["publisher"]+p.spent.by["registry"]
	w.add(p.all.Seconds(), seconds, "edit -> last bundle in the registry",
		fmt.Sprintf("a tenth after %.1f s, half after %.1f s", p.tenth.Seconds(), p.half.Seconds()))
	n := float64(w.Runtimes)
	w.add(p.spent.by["publisher"].Seconds()*1000/n, cpuMillis, "publisher for each bundle", "")
	w.add(p.spent.by["registry"].Seconds()*1000/n, cpuMillis, "registry for each bundle", "")
	w.add(float64(p.traffic.total(publisherHost))/n, number, "registry requests for each runtime",
		p.traffic.requestsOf(publisherHost).String())
	named, err := w.untilNamed(ctx, p)
	if err != nil {
		return err
	}
	w.add(named.Seconds(), seconds, "edit -> every Kyma's status names its bundle", "")
	return w.recordMemory("publisher's memory after the promotion")
}

// measureReports measures how long the publisher takes to update all statuses when all runtimes report at the same
// time.
func (w *world) measureReports(ctx context.Context) error {
	if !w.pending {
		p, err := w.push(ctx)
		if err != nil {
			return err
		}
		if _, err := w.untilNamed(ctx, p); err != nil {
			return err
		}
	}
	took, err := w.respond(ctx, w.Runtimes, w.isUpToDate)
	w.statuses = took
	return err
}

// respond makes all agents poll and waits until the function counts returns true for the wanted number of Kymas. It
// records the elapsed time and the resource usage.
func (w *world) respond(ctx context.Context, wanted int, counts func(string, record) bool) (time.Duration, error) {
	writes, err := w.writes(ctx)
	if err != nil {
		return 0, err
	}
	before, started := w.taken(), time.Now()
	w.agents.resume(true)
	last, err := w.untilRight(ctx, wanted, counts)
	if err != nil {
		return 0, err
	}
	spent := w.taken().since(before)
	w.agents.suspend()
	w.pending = false
	after, err := w.writes(ctx)
	if err != nil {
		return 0, err
	}
	traffic, err := w.registry.totalTraffic(ctx)
	if err != nil {
		return 0, err
	}
	took, n := last.Sub(started), float64(wanted)
	note := ""
	if wanted == w.Runtimes { // in the hostile stage, noisy agents never stop reporting
		note = fmt.Sprintf("the last report was in the registry after %.1f s",
			traffic[request{agentsHost, http.MethodPut, aboutReports}].Last.Sub(started).Seconds())
	}
	w.add(took.Seconds(), seconds, "all agents wake -> every status is correct", note)
	w.add(n/took.Seconds(), perSecond, "statuses",
		fmt.Sprintf("%s patches for each runtime; all writes: %s", w.per(after.since(writes)[statusPatches]),
			after.since(writes)))
	w.say("DEBUG %v", after.since(writes))
	w.add(spent.by["publisher"].Seconds()*1000/n, cpuMillis, "publisher for each report", "")
	w.add(spent.by["kube-apiserver"].Seconds()*1000/n, cpuMillis, "kube-apiserver for each report", "")
	return took, nil
}

// measureDetection measures the time until agents detect a promotion.
func (w *world) measureDetection(ctx context.Context) error {
	if w.pending {
		if err := w.converge(ctx); err != nil {
			return err
		}
	}
	w.agents.resume(false)
	defer w.agents.suspend()
	started := time.Now()
	if err := w.promote(ctx); err != nil {
		return err
	}
	w.pending = true
	var arrived []time.Time
	err := w.waitUntil(ctx, "every agent has verified its new bundle", func() (bool, string) {
		var other string
		arrived, other = w.agents.arrivalTimes(promotedVersion(w.version))
		return len(arrived) == w.Runtimes, fmt.Sprintf("%d of %d; %s", len(arrived), w.Runtimes, other)
	})
	if err != nil {
		return err
	}
	waited := make([]time.Duration, len(arrived))
	for i, at := range arrived {
		waited[i] = at.Sub(started)
	}
	note := w.describePolling()
	w.add(quantile(waited, 0.5).Seconds(), seconds, "edit -> an agent has verified its bundle, p50", note)
	w.add(quantile(waited, 0.99).Seconds(), seconds, "edit -> an agent has verified its bundle, p99", note)
	last, err := w.untilRight(ctx, w.Runtimes, w.isUpToDate)
	if err != nil {
		return err
	}
	w.add(last.Sub(started).Seconds(), seconds, "edit -> every status is correct", note)
	w.pending = false
	return nil
}
