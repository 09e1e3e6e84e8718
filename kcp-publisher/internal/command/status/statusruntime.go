package status

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// DrawKyma prints one runtime.
func DrawKyma(out io.Writer, kyma *v1beta2.Kyma, rollouts fleet.Rollouts, now time.Time) {
	v := statusView{width: cli.Width(out), palette: cli.NewPalette(out)}
	v.Time = now
	v.drawRuntime(out, fleet.Judge(kyma, rollouts, now))
}

func (v statusView) drawRuntime(out io.Writer, r fleet.Runtime) {
	since := ""
	if r.Since != nil {
		since = " since " + v.since(r.Since)
	}
	cli.Printf(out, "runtime %s is %s%s\n", bundle.PrintableLine(r.ID),
		v.paint(terminal.HealthColor(r.Health), string(r.Health)),
		since)
	line := func(what, words string) {
		if words != "" {
			v.writeIndented(out, fmt.Sprintf("  %-11s", what), bundle.PrintableLine(words))
		}
	}
	if r.Cause != nil {
		line("cause", r.Cause.Message)
		line("fix", r.Cause.Advice)
	}
	line("reports", v.lastReport(r))
	line("Kyma",
		fmt.Sprintf("%s/%s, %s, channel %s", r.Namespace, r.Kyma, cmp.Or(string(r.State), "no state yet"), r.Channel))
	line("bundle", formatBundle(r))
	if r.Agent != "" {
		line("agent", fmt.Sprintf("%s on Kubernetes %s", r.Agent, r.Kubernetes))
	}
	if len(r.Modules) == 0 {
		fmt.Fprintln(out, "\nno modules")
		return
	}
	fmt.Fprintln(out)
	t := terminal.NewTable(nil)
	t.AppendHeader(table.Row{"MODULE", "CHANNEL", "VERSION", "REQUESTED", "STATE"})
	for _, m := range r.Modules {
		t.AppendRow(table.Row{
			m.Name, m.Channel, m.Version, m.Asked, terminal.Painted(string(m.State), terminal.ColorOfState(m.State), v.palette),
		})
	}
	v.render(out, t)
	for _, m := range r.Modules {
		if words := cmp.Or(m.Message, m.Held); words != "" {
			fmt.Fprintln(out)
			v.writeIndented(out, m.Name+": ", bundle.PrintableLine(words))
		}
	}
}

func drawBundles(out io.Writer, bundles []fleet.Bundle) {
	if len(bundles) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"BUNDLE", "PUBLISHED", "CHANGE", "APPLIED", "OUTCOME", "COMMIT", "SIGNED BY"})
	verified, unverified := false, ""
	for i := range bundles {
		b := &bundles[i]
		applied, by := "", "not verified"
		if b.Applied != nil {
			applied = b.Applied.UTC().Format(time.RFC3339)
		}
		if b.Signed != nil {
			verified, by = true, b.Signed.PublisherKey
		}
		unverified = cmp.Or(unverified, b.Unverified)
		t.AppendRow(table.Row{
			strconv.FormatInt(b.Sequence, 10), b.Published.UTC().Format(time.RFC3339), b.Why(), applied, b.OutcomeText(),
			b.Commit[:min(len(b.Commit), shownCommit)], by,
		})
	}
	t.Render()
	switch {
	case unverified != "":
		fmt.Fprintln(out, "not verified: "+bundle.PrintableLine(unverified))
	case !verified:
		fmt.Fprintln(out, "source: the publisher's status; set --location and --trust to verify the signatures")
	}
}

const shownCommit = 12

// writeIndented writes a title and text. It indents wrapped lines to the start of the text, unless the title is long.
func (v statusView) writeIndented(out io.Writer, title, words string) {
	indent := "  "
	if len(title) <= v.width/3 {
		for len(indent) < len(title) {
			indent += " "
		}
	}
	lines := v.wrapped(words, max(len(indent), len(title)))
	fmt.Fprintln(out, title+lines[0])
	for _, line := range lines[1:] {
		fmt.Fprintln(out, indent+line)
	}
}

func (v statusView) lastReport(r fleet.Runtime) string {
	switch {
	case r.LastReport == nil:
		return "never"
	case r.Reporting:
		return "yes; the last report was recorded " + v.since(r.LastReport) + " ago; " + recordedDaily
	}
	return "no; the last report was recorded " + v.since(r.LastReport) + " ago"
}

func formatBundle(r fleet.Runtime) string {
	switch {
	case r.Published == 0:
		return "none published"
	case r.InForce == 0:
		return fmt.Sprintf("%d is published, none is known to be in force", r.Published)
	case r.InForce == r.Published:
		return fmt.Sprintf("%d is in force", r.InForce)
	}
	return fmt.Sprintf("%d is published, %d is in force", r.Published, r.InForce)
}
