package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// markdown writes the tables: the figures of this run and the previous one, and the machine's CPU usage in each stage.
func (r *results) markdown(out io.Writer, before *results) {
	o := r.Options
	fmt.Fprintf(out,
		"Measured at %s, version %s, %s: %d runtimes with %d modules each of %d (%d sets), agents poll every %s and "+
			"report every %s.\n",
		r.Time.Format(time.RFC3339), r.Version, r.Machine, r.Runtimes, perRuntime, offered, sets, short(o.AgentPoll),
		short(o.AgentReport))
	if o.Notifications {
		fmt.Fprintf(out,
			"The registry notified the publisher, and the publisher notified the agents; the publisher polled every %s.\n",
			short(rarePoll))
	}
	if len(o.PublisherArgs) > 0 {
		fmt.Fprintf(out, "The publisher ran with `%s`.\n", strings.Join(o.PublisherArgs, " "))
	}
	if len(r.Failed) > 0 {
		fmt.Fprintf(out, "These stages failed: %s.\n", strings.Join(r.Failed, ", "))
	}
	last := "before"
	if before != nil {
		last = fmt.Sprintf("before (%s, %s)", before.Time.Format(time.DateOnly), before.Version)
	}
	fmt.Fprintf(out, "\n| stage | measured | figure | %s | change | note |\n|---|---|---|---|---|---|\n", last)
	for _, f := range r.Figures {
		then, change := "", ""
		if l := before.previousFigure(f); l != nil {
			then = l.text()
			if l.Value != 0 {
				change = fmt.Sprintf("%+.0f %%", (f.Value/l.Value-1)*100)
			}
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s |\n", f.Stage, f.What, f.text(), then, change, f.Note)
	}
	fmt.Fprintf(out, "\n| stage | seconds | CPU s: %s | others' share of the machine | load |\n|---|---|%s---|---|\n",
		strings.Join(processes, " | "), strings.Repeat("---|", len(processes)))
	for _, s := range r.Stages {
		cpu := make([]string, len(processes))
		for i, name := range processes {
			cpu[i] = fmt.Sprintf("%.1f", s.CPU[name])
		}
		fmt.Fprintf(out, "| %s | %.1f | %s | %.0f %% | %s |\n", s.Stage, s.Seconds, strings.Join(cpu, " | "),
			s.Others*100, s.Load)
	}
}

func short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// quantile returns the value that is greater than the given share of the values.
func quantile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
