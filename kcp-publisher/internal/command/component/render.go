package component

import (
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/moduleinput"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// RenderCommand is the name of the hidden command that renders content.
const RenderCommand = "render"

// NewRender returns the command for the child process that renders content.
func NewRender() *cobra.Command {
	return &cobra.Command{
		Use: RenderCommand, Short: "render the content on standard input", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return render.Child(cmd.InOrStdin(), cli.Raw(cmd.OutOrStdout()))
		},
	}
}

// NewUsedImages returns the hidden command that finds a module's images. Commands that list images run it as a child
// process, so that they can limit its time and memory.
func NewUsedImages() *cobra.Command {
	return &cobra.Command{
		Use: moduleinput.UsedCommand, Short: "list the images of the module on standard input", Hidden: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return moduleinput.AnswerUsedRequest(cmd.Context(), cmd.InOrStdin(), cli.Raw(cmd.OutOrStdout()), RenderCommand)
		},
	}
}
