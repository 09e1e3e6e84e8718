package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/kyma-pull/kyma-pull/integration/cluster"
)

// Account makes the kubeconfig that a program, kcp-publisher or skr-agent, works with in a cluster; admin is the cluster's.
type Account func(ctx context.Context, program string, admin *rest.Config) (kubeconfig []byte, err error)

// PublisherKubeconfig is the path of the kubeconfig that the publisher works with.
func (f *Fleet) PublisherKubeconfig() string { return filepath.Join(f.Dir, "kcp-publisher.kubeconfig") }

// AgentKubeconfig is the path of the kubeconfig that the agent works with.
func (r *Runtime) AgentKubeconfig() string {
	return filepath.Join(r.fleet.Dir, r.ID+"-agent.kubeconfig")
}

// employ writes a program's kubeconfig: the admin's unless the fleet's options say otherwise.
func (f *Fleet) employ(ctx context.Context, program string, c *cluster.Cluster, path string) error {
	if f.options.Account == nil {
		return c.WriteKubeconfig(path)
	}
	kubeconfig, err := f.options.Account(ctx, program, c.Config)
	if err != nil {
		return fmt.Errorf("make an account of %s: %w", program, err)
	}
	return os.WriteFile(path, kubeconfig, 0o600)
}
