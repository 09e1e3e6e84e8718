package status

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

type moduleCheck struct {
	Module string `json:"module"`
	v1beta2.CheckOutcome
}

// moduleChecks returns the reported results of a module's checks. If no module is selected, it returns all modules'
// results except Passed ones.
func moduleChecks(kyma *v1beta2.Kyma, module string) (all []moduleCheck) {
	if kyma.Status.Runtime == nil || kyma.Status.Runtime.Published == nil {
		return nil
	}
	given := kyma.Status.Runtime.Published.Given
	for _, name := range slices.Sorted(maps.Keys(given)) {
		for _, outcome := range given[name].Checks {
			if name == module || module == "" && outcome.Result != v1beta2.CheckPassed {
				all = append(all, moduleCheck{name, outcome})
			}
		}
	}
	return all
}

func drawChecks(out io.Writer, all []moduleCheck, palette cli.Palette) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"MODULE", "CHECK", "RESULT", "VALUE", "MESSAGE"})
	colors := map[v1beta2.CheckResult]cli.Color{
		v1beta2.CheckPassed: cli.Green, v1beta2.CheckFailed: cli.Red, v1beta2.CheckInconclusive: cli.Yellow,
	}
	for _, c := range all {
		t.AppendRow(table.Row{
			c.Module, c.Name, terminal.Painted(string(c.Result), colors[c.Result], palette),
			rollout.DescribeValues(c.Value, c.Before), c.Message,
		})
	}
	t.Render()
}
