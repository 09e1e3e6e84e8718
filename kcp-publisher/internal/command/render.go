package command

import (
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

const renderCommand = "render"

// newRender returns the command of the child process that renders content.
func newRender() *cobra.Command {
	return &cobra.Command{
		Use: renderCommand, Short: "render the content on standard input", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return render.Child(cmd.InOrStdin(), cli.Raw(cmd.OutOrStdout()))
		},
	}
}
