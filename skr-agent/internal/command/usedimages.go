package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/rendering"
)

// maxUsedQuestionBytes limits the size of the command's input: a module's content and values in base64, and its
// Manifest.
const maxUsedQuestionBytes = 3*bundle.MaxLayerBytes + bundle.MaxDocumentBytes

// newUsedImages returns the hidden command that renders modules for `kcp-publisher export --images`.
func newUsedImages() *cobra.Command {
	return &cobra.Command{
		Use: "used-images", Short: "read a module from standard input and list its images", Hidden: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usedImages(cmd.Context(), cmd.InOrStdin(), cli.Raw(cmd.OutOrStdout()))
		},
	}
}

func usedImages(ctx context.Context, in io.Reader, out io.Writer) error {
	var question airgap.UsedRequest
	if err := json.NewDecoder(io.LimitReader(in, maxUsedQuestionBytes)).Decode(&question); err != nil {
		return fmt.Errorf("read the request that kcp-publisher export sends to standard input: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	found, err := rendering.UsedImages(ctx, question, render.Confined{Command: []string{self, "render"}}.Render)
	answer := airgap.UsedResponse{Images: found}
	switch {
	case errors.Is(err, render.ErrNotRun) || ctx.Err() != nil:
		return err
	case err != nil:
		answer.Refused = bundle.Bounded(err.Error(), bundle.MaxMessageBytes) // a chart can produce text of any length
	}
	return json.NewEncoder(out).Encode(answer)
}
