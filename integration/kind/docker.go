// Package kind is the ground of fleets whose programs run as pods: kind clusters, a registry container with TLS and credentials for
// each runtime on the network between them, and the project's own images and charts.
//
// Everything it makes carries one name in front, and Sweep removes all that does.
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
const prefix = "kyma-pull-"

// docker runs a command of Docker's and gives what it printed.
func docker(ctx context.Context, args ...string) (string, error) {
	return run(ctx, exec.CommandContext(ctx, "docker", args...))
}

// run runs a command and gives what it printed; its complaints become part of the error.
func run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[:min(len(cmd.Args), 6)], " "), errors.Join(err, ctx.Err()), tail(problems.String()+out.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func tail(text string) string { return strings.TrimSpace(text[max(0, len(text)-2000):]) }

// names lists what Docker has of a kind (container, volume, network) below the prefix.
func names(ctx context.Context, what string) ([]string, error) {
	args := map[string][]string{
		"container": {"container", "ls", "--all", "--format", "{{.Names}}"},
		"volume":    {"volume", "ls", "--format", "{{.Name}}"},
		"network":   {"network", "ls", "--format", "{{.Name}}"},
	}[what]
	list, err := docker(ctx, args...)
	if err != nil {
		return nil, err
	}
	var ours []string
	for name := range strings.Lines(list) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, prefix) {
			ours = append(ours, name)
		}
	}
	return ours, nil
}

// Sweep removes every container, volume and network of this package, also those of a run that was killed.
func Sweep(ctx context.Context) error {
	for _, step := range []struct {
		what   string
		remove []string
	}{
		{"container", []string{"container", "rm", "--force", "--volumes"}},
		{"volume", []string{"volume", "rm", "--force"}},
		{"network", []string{"network", "rm"}},
	} {
		found, err := names(ctx, step.what)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			continue
		}
		if _, err := docker(ctx, append(step.remove, found...)...); err != nil {
			return err
		}
	}
	return nil
}
