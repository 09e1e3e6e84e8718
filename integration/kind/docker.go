// Package kind is the ground of fleets whose programs run as pods: kind clusters, a registry container with TLS and
// credentials for each runtime on the network between them, and the project's own images and charts.
//
// Everything it makes carries one name in front and is removed by that, also what a run left that was killed. So there
// is one run at a time.
package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// prefix starts the names of clusters, containers, volumes and networks.
const prefix = "kyma-pull-test-"

// docker runs a command of Docker's and gives what it printed.
func docker(ctx context.Context, args ...string) (string, error) {
	return run(ctx, exec.CommandContext(ctx, "docker", args...))
}

// run runs a command and gives what it printed, even if it failed; its complaints become part of the error.
func run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(out.String()), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[:min(len(cmd.Args), 6)], " "), errors.Join(err, ctx.Err()), tail(problems.String()+out.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func tail(text string) string { return strings.TrimSpace(text[max(0, len(text)-2000):]) }
