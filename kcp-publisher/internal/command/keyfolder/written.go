package keyfolder

import (
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

// PrintWritten prints the files that a command has written.
func PrintWritten(cmd *cobra.Command, format string, made []keys.WrittenFile) error {
	return cli.Print(cmd.OutOrStdout(), format, made, func(out io.Writer) {
		t := terminal.NewTable(out)
		t.AppendHeader(table.Row{"FILE", "PURPOSE", "KEEP"})
		for _, f := range made {
			t.AppendRow(table.Row{f.File, f.What, f.Keep})
		}
		t.Render()
	})
}
