package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/log"
)

// cluster is a kind cluster of one node.
type cluster struct {
	name       string
	kubeconfig string
	provider   *kindcluster.Provider
}

func newCluster(name, dir string) *cluster {
	return &cluster{
		name: prefix + name, kubeconfig: filepath.Join(dir, name+"-admin.kubeconfig"),
		provider: kindcluster.NewProvider(kindcluster.ProviderWithDocker(),
			kindcluster.ProviderWithLogger(log.NoopLogger{})),
	}
}

// create starts the cluster in a Docker network and waits until pods can start. If this fails, it keeps the cluster for
// inspection.
func (c *cluster) create(ctx context.Context, m machine, network string) error {
	// This environment variable is the only way to select kind's Docker network.
	if err := os.Setenv("KIND_EXPERIMENTAL_DOCKER_NETWORK", network); err != nil {
		return err
	}
	err := c.provider.Create(c.name, kindcluster.CreateWithRawConfig([]byte(m.config())),
		kindcluster.CreateWithNodeImage(m.nodeImage),
		kindcluster.CreateWithKubeconfigPath(c.kubeconfig), kindcluster.CreateWithWaitForReady(3*time.Minute),
		kindcluster.CreateWithRetain(true),
		kindcluster.CreateWithDisplayUsage(false), kindcluster.CreateWithDisplaySalutation(false))
	if err != nil {
		return fmt.Errorf("create kind cluster %s: %w", c.name, err)
	}
	return c.waitForDNS(ctx)
}

// waitForDNS waits for DNS, which can fail for a short time after kind reports the cluster as ready.
func (c *cluster) waitForDNS(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	for {
		_, err := c.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=60s")
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// node returns the container of the cluster's only node.
func (c *cluster) node() string { return c.name + "-control-plane" }

// kubectl runs kubectl in the node with admin permissions.
func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return c.inNode(ctx, append([]string{"kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"}, args...)...)
}

func (c *cluster) inNode(ctx context.Context, args ...string) (string, error) {
	return docker(ctx, append([]string{"exec", c.node()}, args...)...)
}

// load copies images from this machine's Docker into the node.
func (c *cluster) load(ctx context.Context, images ...string) error {
	save := exec.CommandContext(ctx, "docker", append([]string{"save"}, images...)...)
	pipe, err := save.StdoutPipe()
	if err != nil {
		return err
	}
	var complaints bytes.Buffer
	save.Stderr = &complaints
	if err := save.Start(); err != nil {
		return err
	}
	load := exec.CommandContext(ctx, "docker", "exec", "-i", c.node(), "ctr", "--namespace=k8s.io", "images", "import",
		"--digests", "--snapshotter=overlayfs", "-")
	load.Stdin = pipe
	if _, err = run(ctx, load); err != nil {
		pipe.Close() // ends docker save, which would block without a reader
	}
	if unsaved := save.Wait(); unsaved != nil {
		err = errors.Join(fmt.Errorf("docker save: %w: %s", unsaved, tail(complaints.String())), err)
	}
	if err != nil {
		return fmt.Errorf("load images into %s: %w", c.name, err)
	}
	return nil
}

// Kubeconfig returns the path of a kubeconfig with admin permissions.
func (c *cluster) Kubeconfig() string { return c.kubeconfig }

// Pause stops the node, like a machine that shuts down.
func (c *cluster) Pause() error {
	_, err := docker(context.Background(), "stop", "--time=20", c.node())
	return err
}

// Resume starts the node again and waits until pods run.
func (c *cluster) Resume() error {
	ctx := context.Background()
	if _, err := docker(ctx, "start", c.node()); err != nil {
		return err
	}
	return c.waitForDNS(ctx)
}

// Started returns the last start time of the node's container.
func (c *cluster) Started(ctx context.Context) (time.Time, error) {
	output, err := docker(ctx, "inspect", "--format", "{{.State.StartedAt}}", c.node())
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, output)
}

// Stop deletes the cluster.
func (c *cluster) Stop() error {
	return c.provider.Delete(c.name, c.kubeconfig)
}

// address returns a container's IP address in its network.
func address(ctx context.Context, container string) (string, error) {
	found, err := docker(ctx, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}",
		container)
	if err != nil {
		return "", err
	}
	if found = strings.TrimSpace(found); found == "" {
		return "", fmt.Errorf("container %s is not connected to a network", container)
	}
	return strings.Fields(found)[0], nil
}
