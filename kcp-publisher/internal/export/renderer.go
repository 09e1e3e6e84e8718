package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/internal/bounded"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/moduleinput"
)

const (
	rendererTimeout = 2 * time.Minute
	// maxErrorOutputBytes limits how much of a renderer's error output is copied to an error.
	maxErrorOutputBytes = 4 << 10
)

// Renderer renders modules with a kcp-publisher or skr-agent program, in a separate process with an empty environment.
type Renderer struct{ Program string }

// Images runs the program and returns the images that a module uses.
func (r Renderer) Images(ctx context.Context, q airgap.UsedRequest) ([]string, error) {
	request, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, rendererTimeout)
	defer cancel()
	child := exec.CommandContext(limited, r.Program, moduleinput.UsedCommand)
	output, errorOutput := &bounded.Buffer{MaxBytes: airgap.MaxUsedResponseBytes, Full: cancel},
		&bounded.Buffer{MaxBytes: maxErrorOutputBytes}
	child.Stdin, child.Stdout, child.Stderr = bytes.NewReader(request), output, errorOutput
	child.Env = []string{}
	child.WaitDelay = time.Second
	err = child.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case output.HasOverflowed():
		return nil, fmt.Errorf("%s wrote more than %d bytes", r.Program, output.MaxBytes)
	case limited.Err() != nil:
		return nil, fmt.Errorf("%s took longer than %s and was stopped", r.Program, rendererTimeout)
	case errors.As(err, &exit) && exit.ExitCode() == cli.ExitUsage: // the program does not have the command
		return nil,
			fmt.Errorf("%s does not support rendering: remove --renderer, or set it to an skr-agent of this version",
				r.Program)
	case err != nil:
		first, _, _ := strings.Cut(errorOutput.String(), "\n")
		return nil, fmt.Errorf("%s: %w: %q", r.Program, err, first)
	}
	var answer airgap.UsedResponse
	if err := json.Unmarshal(output.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("read the output of %s: %w", r.Program, err)
	}
	if answer.Refused != "" {
		return nil, errors.New(bundle.Bounded(answer.Refused, bundle.MaxMessageBytes)) // untrusted text from a chart
	}
	return answer.Images, nil
}
