package kind

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Gather writes diagnostics of a failure into a folder: objects, logs and command output of each cluster, and the
// registry's logs.
func (g *Environment) Gather(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var problems []error
	keep := func(name string, ask func(context.Context) (string, error)) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute) // a broken cluster may not respond
		defer cancel()
		content, err := ask(ctx)
		if err != nil {
			content += "\n" + err.Error() + "\n" // the file also contains the error
		}
		problems = append(problems, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	for name, c := range g.clusters {
		for file, args := range diagnosticCommands {
			keep(name+"-"+file, func(ctx context.Context) (string, error) { return c.kubectl(ctx, args...) })
		}
		for _, p := range []*pod{
			{c, publisherNamespace, publisherRelease, publisherRelease}, {c, agentNamespace, agentRelease, agentRelease},
			{c, publisherNamespace, publisherRelease + "-ui", "ui"},
		} {
			keep(name+"-"+p.deployment+".log", p.log)
		}
		if err := c.provider.CollectLogs(c.name, filepath.Join(dir, name)); err != nil {
			keep(name+"-logs.txt", func(context.Context) (string, error) {
				return "some logs of the node could not be read:", err
			})
		}
	}
	for _, container := range []string{registryContainer, tokenContainer} {
		keep(container+".log", func(ctx context.Context) (string, error) {
			output, err := exec.CommandContext(ctx, "docker", "logs", container).CombinedOutput()
			return string(output), err
		})
	}
	return errors.Join(problems...)
}

// diagnosticCommands maps file names to kubectl arguments. kubectl fails if one of several kinds is missing, so
// optional kinds have their own files.
var diagnosticCommands = map[string][]string{
	"pods.txt":     {"get", "pods", "--all-namespaces", "-o", "wide"},
	"describe.txt": {"describe", "pods", "--all-namespaces"},
	"events.txt":   {"get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"},
	"fleet.yaml": {
		"get", "kymas,manifests,moduletemplates,modulereleasemetas", "--all-namespaces", "-o", "yaml",
	},
	"rollouts.yaml":        {"get", "rollouts,rolloutpolicies", "--all-namespaces", "-o", "yaml"},
	"workloads.yaml":       {"get", "deployments,configmaps", "--all-namespaces", "-o", "yaml"},
	"networkpolicies.yaml": {"get", "networkpolicies", "--all-namespaces", "-o", "yaml"},
	"beacons.yaml":         {"get", "beacons", "--all-namespaces", "-o", "yaml"},
}
