// Package command implements the command line of skr-agent.
package command

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// Execute runs the command line and returns the exit code.
func Execute(version string, args []string, out, errOut io.Writer) int {
	return cli.Execute(newProgram(version), nil, args, out, errOut)
}

func newProgram(version string) *cobra.Command {
	root, g := cli.NewRoot("skr-agent", "pull the runtime's bundle, verify it, install its modules and report",
		version)
	root.AddCommand(newRun(g), newCheck(), newVerify(), newProvenance(), newImport(), newExportReport(), newRender(),
		newUsedImages())
	cli.CompleteConnections(root)
	return root
}
