package rollout

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

const followInterval = time.Second

func watchRollout(
	ctx context.Context, every time.Duration, read func() (*v1alpha1.Rollout,
		error), show func(*v1alpha1.Rollout), checks ...func(*v1alpha1.Rollout) error,
) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		one, err := read()
		if err != nil {
			return err
		}
		show(one)
		if rollout.HasEnded(one) {
			return endError(one)
		}
		for _, check := range checks {
			if err := check(one); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func endError(r *v1alpha1.Rollout) error {
	if r.Status.State == v1alpha1.RolloutSucceeded {
		return nil
	}
	return fmt.Errorf("rollout %s is %s: %s", r.Name, r.Status.State, r.Status.Message)
}

func livePrinter(out io.Writer) func(*v1alpha1.Rollout) {
	lines := 0
	return func(r *v1alpha1.Rollout) {
		var next bytes.Buffer
		drawRollout(&next, r, time.Now(), cli.NewPalette(out))
		if lines > 0 {
			_, _ = fmt.Fprintf(cli.Raw(out), "\x1b[%dA\x1b[J", lines)
		}
		_, _ = out.Write(next.Bytes())
		lines = countRows(next.String(), cli.Width(out))
	}
}

func countRows(lines string, width int) int {
	rows := 0
	for line := range strings.Lines(lines) {
		rows += max(1, (text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n"))+width-1)/width)
	}
	return rows
}

func plainPrinter(out io.Writer) func(*v1alpha1.Rollout) {
	last := ""
	return func(r *v1alpha1.Rollout) {
		s := r.Status
		line := fmt.Sprintf("%s %s wave %s: %s updated, %d failed, %d deferred: %s", r.Name, s.State, s.Wave,
			s.Progress, s.Failed, s.Deferred, s.Message)
		if line != last {
			cli.Printf(out, "%s %s\n", time.Now().UTC().Format(time.RFC3339), line)
		}
		last = line
	}
}

func drawRollout(out io.Writer, r *v1alpha1.Rollout, now time.Time, palette cli.Palette) {
	s := r.Status
	cli.Printf(out, "rollout %s: module %s%s from %s to %s, policy %s\n", r.Name, r.Spec.Module,
		inChannel(r.Spec.Channel), r.Spec.From, r.Spec.To, r.Spec.Policy)
	cli.Printf(out, "  %s %s\n",
		palette.Paint(terminal.ColorOfRollout(s.State), fmt.Sprintf("%-12s", cmp.Or(string(s.State), "New"))), s.Message)
	cli.Printf(out, "  %-12s %s\n", "time", formatDuration(s, now))
	if wave := approvableWave(r); wave != "" {
		cli.Printf(out, "  %-12s kcp-publisher rollout approve %s %s\n", "approve", r.Name, wave)
	}
	fmt.Fprintln(out)
	for _, f := range s.Failures {
		cli.Printf(out, "  %s: %s (wave %s): %s\n", palette.Paint(cli.Red, "failed"), f.Runtime, f.Wave, f.Reason)
	}
	if more := int(s.Failed) - len(s.Failures); more > 0 && len(s.Failures) > 0 {
		cli.Printf(out, "  and %d more\n", more)
	}
	if len(s.Failures) > 0 {
		fmt.Fprintln(out)
	}
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"WAVE", "STATE", "PROGRESS", "UPDATED", "IN FLIGHT", "FAILED", "DEFERRED"})
	for i, w := range s.Waves {
		state := string(w.State)
		if w.State == v1alpha1.WaveSoaking && w.ReadyAt != nil && i < len(r.Spec.Waves) {
			if left := w.ReadyAt.Add(r.Spec.Waves[i].Soak.Duration).Sub(now); left > 0 {
				state += ", " + left.Round(time.Second).String() + " left"
			}
		}
		t.AppendRow(table.Row{
			w.Name, state, progressBar(w.Updated, w.Total), fmt.Sprintf("%d/%d", w.Updated, w.Total), w.InFlight, w.Failed,
			w.Deferred,
		})
	}
	t.Render()
	drawChecks(out, s.Waves)
}

// inChannel returns the text " in channel NAME". It returns "" for the rollout of a formerly mandatory module, which
// has no channel.
func inChannel(channel string) string {
	if channel == "" {
		return ""
	}
	return " in channel " + channel
}

// approvableWave returns the name of the wave that an operator must approve before the rollout continues, or "" if the
// rollout does not wait for an approval.
func approvableWave(r *v1alpha1.Rollout) string {
	if r.Status.State != v1alpha1.RolloutWaiting {
		return ""
	}
	for _, w := range r.Status.Waves {
		if rollout.AwaitsApproval(r.Spec, w) {
			return w.Name
		}
	}
	return ""
}

func drawChecks(out io.Writer, waves []v1alpha1.WaveStatus) {
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"WAVE", "CHECK", "PASSED", "FAILED", "INCONCLUSIVE", "MEDIAN", "WORST", "RUNTIME"})
	for _, w := range waves {
		for _, c := range w.Checks {
			t.AppendRow(table.Row{
				w.Name, c.Name, c.Passed, c.Failed, c.Inconclusive,
				rollout.DescribeValues(c.Median, c.MedianBefore), rollout.DescribeValues(c.Worst, c.WorstBefore), c.WorstRuntime,
			})
		}
	}
	if t.Length() > 0 {
		fmt.Fprintln(out)
		t.Render()
	}
}

func formatDuration(s v1alpha1.RolloutStatus, now time.Time) string {
	switch {
	case s.StartedAt == nil:
		return "not started"
	case s.FinishedAt != nil:
		return fmt.Sprintf("started %s, took %s", s.StartedAt.UTC().Format(time.RFC3339),
			s.FinishedAt.Sub(s.StartedAt.Time).Round(time.Second))
	case s.EstimatedEnd != nil && s.EstimatedEnd.After(now):
		return fmt.Sprintf("started %s ago, about %s left", now.Sub(s.StartedAt.Time).Round(time.Second),
			s.EstimatedEnd.Sub(now).Round(time.Minute))
	}
	return fmt.Sprintf("started %s ago", now.Sub(s.StartedAt.Time).Round(time.Second))
}

func progressBar(done, all int32) string {
	const width = 20
	filled := int32(width)
	if all > 0 {
		filled = done * width / all
	}
	return strings.Repeat("█", int(filled)) + strings.Repeat("░", int(width-filled))
}
