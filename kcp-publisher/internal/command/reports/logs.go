package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	age "k8s.io/apimachinery/pkg/util/duration"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
)

// NewLogs returns the command logs.
func NewLogs() *cobra.Command {
	return newReportCommand(&cobra.Command{
		Use: "logs RUNTIME [MODULE]", Short: "show why modules fail, from the runtime's signed report",
		Long: "logs shows the conditions, Events and last log lines of the objects that keep modules from being " +
			"ready. It reads the runtime's\n" +
			"latest report and verifies the report with the runtime's key; it does not need access to the runtime. The " +
			"agent reports these details\n" +
			"if the Kyma's annotation kyma-pull.dev/report-details lists events and logs. It masks texts that look " +
			"like secrets.",
		Example: "  kcp-publisher logs berlin --location registry.example/fleet\n  kcp-publisher logs berlin keda " +
			"--file berlin-report.json",
	}, Report.drawLogs)
}

// newReportCommand completes a command that reads a report and prints it with draw.
func newReportCommand(cmd *cobra.Command, draw func(r Report, out io.Writer, now time.Time)) *cobra.Command {
	f := &ReportFlags{}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := f.Read(cmd, args)
		if err != nil {
			return err
		}
		return cli.Print(cmd.OutOrStdout(), f.Format, report, func(out io.Writer) { draw(report, out, time.Now()) })
	}
	f.addTo(cmd)
	return cmd
}

func (r Report) drawLogs(out io.Writer, now time.Time) {
	palette := cli.NewPalette(out)
	cli.Printf(out, "report of %s, %s ago\n", r.Time.UTC().Format(time.RFC3339), age.HumanDuration(now.Sub(r.Time)))
	shown := 0
	for _, m := range r.Modules {
		d := m.Details
		if d == nil || len(d.Failing) == 0 && d.Problem == "" {
			continue
		}
		shown++
		cli.Printf(out, "\nmodule %s %s is %s: %s\n", m.Name, m.Version, palette.Paint(terminal.ColorOfState(m.State),
			string(m.State)), m.Message)
		for _, o := range d.Failing {
			drawFailing(out, o)
		}
		drawOmitted(out, d)
	}
	if shown == 0 {
		if !slices.ContainsFunc(r.Modules, isUnready) {
			fmt.Fprintln(out, "all modules are ready: the report has excerpts only of modules that are not ready")
			return
		}
		fmt.Fprintln(out, r.missingMessage("excerpts of failing modules", bundle.DetailEvents, bundle.DetailLogs))
	}
}

func isUnready(m bundle.ReportedModule) bool { return m.State != v1beta2.StateReady }

func drawFailing(out io.Writer, o bundle.FailingObject) {
	text := o.State
	if o.Message != "" {
		text += ": " + o.Message
	}
	cli.Printf(out, "  %s: %s\n", objectName(o.DetailedObject), text)
	for _, c := range o.Conditions {
		cli.Printf(out, "    condition  %s\n", c)
	}
	for _, e := range o.Events {
		cli.Printf(out, "    event      %s\n", e)
	}
	for _, l := range o.Logs {
		run := ""
		if l.Previous {
			run = ", before its last restart"
		}
		cli.Printf(out, "    log of container %s%s\n", l.Container, run)
		for line := range strings.Lines(cmp.Or(l.Text, "(empty)")) {
			cli.Printf(out, "      | %s\n", strings.TrimRight(line, "\n"))
		}
	}
}

func drawOmitted(out io.Writer, d *bundle.ModuleDetails) {
	if d.Problem != "" {
		cli.Printf(out, "  the agent could not read everything: %s\n", d.Problem)
	}
	if d.LeftOut > 0 {
		cli.Printf(out, "  %s left out\n", terminal.Pluralize(d.LeftOut, "further object"))
	}
	if d.Shortened {
		fmt.Fprintln(out, "  shortened: the details of all modules exceed the size limit of a report")
	}
}

func objectName(o bundle.DetailedObject) string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}
