package kind

import (
	"context"
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// apiServerManifest is the path of the API server's static Pod manifest, and apiServerAway its path while the API
// server is stopped.
const (
	apiServerManifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	apiServerAway     = "/etc/kubernetes/kube-apiserver.yaml"
)

// StopAPIServer stops a cluster's API server and waits until it has ended. All pods keep running.
func (g *Environment) StopAPIServer(ctx context.Context, cluster string) error {
	c := g.clusters[cluster]
	if _, err := c.inNode(ctx, "mv", apiServerManifest, apiServerAway); err != nil {
		return err
	}
	return fleet.Until(ctx, limit, "the API server of "+cluster+" has ended", func() (bool, string) {
		running, err := c.inNode(ctx, "crictl", "ps", "--quiet", "--name", "^kube-apiserver$")
		return err == nil && running == "", fmt.Sprint(running, err)
	})
}

// StartAPIServer starts a stopped API server and waits until it responds.
func (g *Environment) StartAPIServer(ctx context.Context, cluster string) error {
	c := g.clusters[cluster]
	if _, err := c.inNode(ctx, "sh", "-c", "test ! -e "+apiServerAway+" || mv "+apiServerAway+" "+
		apiServerManifest); err != nil {
		return err
	}
	return fleet.Until(ctx, 2*limit, "the API server of "+cluster+" responds", func() (bool, string) {
		asking, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		output, err := c.kubectl(asking, "get", "--raw", "/readyz")
		return err == nil, fmt.Sprint(output, err)
	})
}

// Containers returns the IDs of a program's running containers. It works while the API server is stopped.
func (g *Environment) Containers(ctx context.Context, program fleet.Program) ([]string, error) {
	p, err := inPod(program)
	if err != nil {
		return nil, err
	}
	return p.runningContainers(ctx)
}

func inPod(program fleet.Program) (*pod, error) {
	p, ok := program.(*pod)
	if !ok {
		return nil, fmt.Errorf("%T does not run in a pod", program)
	}
	return p, nil
}
