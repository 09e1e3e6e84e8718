package kind

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// pod is a program that runs as a Deployment. The field container is the name of the program's container.
type pod struct {
	cluster                          *cluster
	namespace, deployment, container string
}

// limit is the time limit for Kubernetes to start or stop a pod.
const limit = 2 * time.Minute

// Stop scales the program's Deployment to zero and waits until its pods are deleted.
func (p *pod) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := p.cluster.kubectl(ctx, "-n", p.namespace, "scale", "deployment/"+p.deployment,
		"--replicas=0"); err != nil {
		return err
	}
	_, err := p.cluster.kubectl(ctx, "-n", p.namespace, "wait", "pod", "-l", p.selector(), "--for=delete",
		"--timeout=90s")
	return err
}

// Kill kills the program's process in every pod and waits until the containers have ended. The kubelet then starts new
// containers.
func (p *pod) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	killed, err := p.runningContainers(ctx)
	if err != nil {
		return err
	}
	if len(killed) == 0 {
		return fmt.Errorf("no container of %s is running in %s", p.deployment, p.cluster.name)
	}
	for _, container := range killed {
		if err := p.kill(ctx, container); err != nil {
			return err
		}
	}
	return fleet.Until(ctx, limit, fmt.Sprintf("containers %v of %s have ended", killed, p.deployment),
		func() (bool, string) {
			now, err := p.runningContainers(ctx)
			left := slices.DeleteFunc(now, func(container string) bool { return !slices.Contains(killed, container) })
			return err == nil && len(left) == 0, fmt.Sprint(left, err)
		})
}

// runningContainers returns the IDs of the program's running containers.
func (p *pod) runningContainers(ctx context.Context) ([]string, error) {
	list, err := p.cluster.inNode(ctx, "crictl", "ps", "--quiet",
		"--label", "io.kubernetes.pod.namespace="+p.namespace, "--label", "io.kubernetes.container.name="+p.container)
	return strings.Fields(list), err
}

func (p *pod) kill(ctx context.Context, container string) error {
	output, err := p.cluster.inNode(ctx, "crictl", "inspect", "--output", "go-template", "--template", "{{.info.pid}}",
		container)
	if err != nil {
		return err
	}
	// For 0 or a negative number, kill(1) would kill a process group.
	if pid, err := strconv.Atoi(output); err != nil || pid <= 1 {
		return fmt.Errorf("container %s of %s has invalid process ID %q", container, p.deployment, output)
	}
	_, err = p.cluster.inNode(ctx, "kill", "-9", output)
	return err
}

// Log returns the output of the running pods.
func (p *pod) Log() string {
	log, err := p.log(context.Background())
	if err != nil {
		return err.Error()
	}
	return log
}

func (p *pod) log(ctx context.Context) (string, error) {
	return p.cluster.kubectl(ctx, "-n", p.namespace, "logs", "-l", p.selector(), "--tail=-1", "--prefix")
}

func (p *pod) selector() string { return "app.kubernetes.io/name=" + p.deployment }
