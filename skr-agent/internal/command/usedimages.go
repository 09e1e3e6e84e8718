package command

import (
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/moduleinput"
)

// newUsedImages returns the hidden command that renders modules for `kcp-publisher export --images --renderer`.
func newUsedImages() *cobra.Command {
	return &cobra.Command{
		Use: moduleinput.UsedCommand, Short: "read a module from standard input and list its images", Hidden: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return moduleinput.AnswerUsedRequest(cmd.Context(), cmd.InOrStdin(), cli.Raw(cmd.OutOrStdout()), renderCommand)
		},
	}
}
