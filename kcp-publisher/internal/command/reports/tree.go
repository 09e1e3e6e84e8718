package reports

import (
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	age "k8s.io/apimachinery/pkg/util/duration"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
)

// NewTree returns the command tree.
func NewTree() *cobra.Command {
	return newReportCommand(&cobra.Command{
		Use:   "tree RUNTIME [MODULE]",
		Short: "list module objects with their states, from the runtime's signed report",
		Long: "tree lists the objects of each module; objects that are not ready come first. It reads the runtime's " +
			"latest report and verifies\n" +
			"the report with the runtime's key; it does not need access to the runtime. The agent reports the objects if " +
			"the Kyma's annotation\n" +
			"kyma-pull.dev/report-details lists objects.",
		Example: "  kcp-publisher tree berlin --location registry.example/fleet\n  kcp-publisher tree berlin keda " +
			"--location registry.example/fleet -o json",
	}, Report.drawTree)
}

func (r Report) drawTree(out io.Writer, now time.Time) {
	palette := cli.NewPalette(out)
	cli.Printf(out, "report of %s, %s ago\n\n", r.Time.UTC().Format(time.RFC3339), age.HumanDuration(now.Sub(r.Time)))
	t, shown := terminal.NewTable(out), 0
	t.AppendHeader(table.Row{"OBJECT", "STATE", "MESSAGE"})
	for _, m := range r.Modules {
		t.AppendRow(table.Row{m.Name + " " + m.Version,
			terminal.Painted(string(m.State), terminal.ColorOfState(m.State), palette),
			m.Message})
		if m.Details == nil {
			continue
		}
		for i, o := range m.Details.Objects {
			branch := "├── "
			if i == len(m.Details.Objects)-1 && m.Details.LeftOut == 0 {
				branch = "└── "
			}
			shown++
			t.AppendRow(table.Row{branch + objectName(o),
				terminal.Painted(o.State, terminal.ColorOfState(v1beta2.State(o.State)), palette),
				o.Message})
		}
		if n := m.Details.LeftOut; n > 0 {
			t.AppendRow(table.Row{"└── " + terminal.Pluralize(n, "further object") + " left out", "", ""})
		}
	}
	t.Render()
	if shown == 0 {
		fmt.Fprintln(out, r.missingMessage("objects", bundle.DetailObjects))
	}
}
