package main

import (
	"context"
	"fmt"
	"strings"
)

// measureHostileFleet measures a promotion while some runtimes fail, are silent or report every second. These
// runtimes must not delay the others.
func (w *world) measureHostileFleet(ctx context.Context) error {
	if w.pending {
		if err := w.converge(ctx); err != nil {
			return err
		}
	}
	if w.promoted == 0 || w.statuses == 0 {
		p, err := w.push(ctx)
		if err != nil {
			return err
		}
		w.promoted, w.promotedCPU = p.all, p.spent.by["publisher"]+p.spent.by["registry"]
		if _, err := w.untilNamed(ctx, p); err != nil {
			return err
		}
		w.stage = "reports"
		err = w.measureReports(ctx)
		if w.stage = "hostile"; err != nil {
			return err
		}
	}
	next := promotedVersion(w.version + 1)
	bad := map[string]bool{}
	w.agents.setBehavior(func(i int) conduct {
		c := conduct{Silent: i%20 == 7, Noisy: i == 0}
		if i%20 == 13 {
			c.Failing = next
		}
		bad[runtimeID(i)] = c.Silent || c.Failing != ""
		return c
	})
	defer w.agents.setBehavior(func(int) conduct { return conduct{} })
	w.agents.each[0].poll()
	good := 0
	for i := range w.Runtimes {
		if !bad[runtimeID(i)] {
			good++
		}
	}
	p, err := w.push(ctx)
	if err != nil {
		return err
	}
	w.add(p.all.Seconds(), seconds, "edit -> last bundle in the registry",
		fmt.Sprintf("%d of %d runtimes fail or are silent, one reports every second; without them %.1f s",
			w.Runtimes-good, w.Runtimes, w.promoted.Seconds()))
	w.add(p.all.Seconds()/w.promoted.Seconds(), times, "promotion, compared with healthy runtimes only", "")
	w.add((p.spent.by["publisher"]+p.spent.by["registry"]).Seconds()/w.promotedCPU.Seconds(), times,
		"CPU time of the promotion, compared with healthy runtimes only", "publisher and registry")
	if _, err := w.untilNamed(ctx, p); err != nil {
		return err
	}
	took, err := w.respond(ctx, good, func(id string, r record) bool { return !bad[id] && w.isUpToDate(id, r) })
	if err != nil {
		return err
	}
	w.add(took.Seconds()/float64(good)/(w.statuses.Seconds()/float64(w.Runtimes)), times,
		"statuses of healthy runtimes, compared with healthy runtimes only", "for each runtime")
	w.agents.setBehavior(func(int) conduct { return conduct{} })
	return w.converge(ctx)
}

// measureBaselines sends the same requests as a promotion to the registry and the API server, but without a publisher,
// and measures them. Other stages compare the publisher with these figures.
func (w *world) measureBaselines(ctx context.Context) error {
	if w.pending {
		if err := w.converge(ctx); err != nil {
			return err
		}
	}
	if err := w.killPublisher(); err != nil {
		return err
	}
	bare, spent, err := w.bareLoop(ctx)
	if err != nil {
		return err
	}
	bareCPU := spent.by["agents"] + spent.by["registry"]
	w.add(bare.Seconds(), seconds, "bare loop of the same bundles",
		fmt.Sprintf("%d writers, %d mounts and a manifest each", writers, w.mountsPerBundle()))
	if w.promoted > 0 {
		w.add(w.promoted.Seconds()/bare.Seconds(), times, "promotion, against the bare loop", "")
		w.add(w.promotedCPU.Seconds()/bareCPU.Seconds(), times, "its CPU time, against the bare loop's",
			"publisher and registry, against loop and registry")
	}
	for _, baseline := range []struct {
		name, plural string
		write        statusWrite
	}{
		{"raw patch", "raw patches", w.patchStatus}, {"raw replacement", "raw replacements", w.replaceStatus},
	} {
		before := w.taken()
		rate, written, err := w.writeStatuses(ctx, baseline.write)
		if err != nil {
			return err
		}
		spent = w.taken().since(before)
		w.add(rate, perSecond, baseline.plural+" of statuses", fmt.Sprintf("%d writes, %d writers", written, writers))
		w.add(spent.by["kube-apiserver"].Seconds()*1000/float64(written), cpuMillis,
			"kube-apiserver for each "+baseline.name, "")
		if w.statuses > 0 {
			w.add(float64(w.Runtimes)/w.statuses.Seconds()/rate, times, "statuses, against "+baseline.plural,
				"more is better")
		}
	}
	return nil
}

// String lists the counts of all kinds of requests, largest first.
func (c requestCounts) String() string {
	rest := requestCounts{}
	for key, value := range c {
		rest[key] = value
	}
	var parts []string
	for len(rest) > 0 {
		var most request
		for key, value := range rest {
			if m := rest[most]; value.N > m.N || value.N == m.N && fmt.Sprint(key) > fmt.Sprint(most) {
				most = key
			}
		}
		parts = append(parts, fmt.Sprintf("%d %s %s", rest[most].N, most.Method, most.About))
		delete(rest, most)
	}
	return strings.Join(parts, ", ")
}
