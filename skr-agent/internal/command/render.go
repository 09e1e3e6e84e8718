package command

import (
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// newRender is what the agent starts itself with to render charts and overlays; it is for nobody else.
func newRender() *cobra.Command {
	return &cobra.Command{
		Use: "render", Short: "renders what it is given on standard input", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return render.Child(cmd.InOrStdin(), cli.Raw(cmd.OutOrStdout()))
		},
	}
}
