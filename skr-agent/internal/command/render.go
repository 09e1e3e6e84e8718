package command

import (
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// renderCommand is the name of the hidden command that renders in a child process.
const renderCommand = "render"

// newRender returns the hidden command that renders charts and overlays in a child process.
func newRender() *cobra.Command {
	return &cobra.Command{
		Use: renderCommand, Short: "render a module from standard input", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return render.Child(cmd.InOrStdin(), cli.Raw(cmd.OutOrStdout()))
		},
	}
}
