// Package kind implements fleet.Environment with kind clusters. The programs run in pods from the project's
// images and charts. The registry is a container in the same network, with TLS and a password for each runtime.
//
// A run removes the Docker objects that an earlier, killed run left behind. Only one run can use a machine at a time.
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

// prefix is the prefix of the names of all Docker objects.
const prefix = "kyma-pull-test-"

func docker(ctx context.Context, args ...string) (string, error) {
	return run(ctx, exec.CommandContext(ctx, "docker", args...))
}

// run runs a command and returns its output. The error contains the text on stderr.
func run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(out.String()),
			fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[:min(len(cmd.Args), 6)], " "), errors.Join(err, ctx.Err()),
				tail(problems.String()+out.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func tail(text string) string { return strings.TrimSpace(text[max(0, len(text)-2000):]) }
