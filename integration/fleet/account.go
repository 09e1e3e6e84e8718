package fleet

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/cluster"
)

// Account makes the kubeconfig that a program, kcp-publisher or skr-agent, works with in a cluster; admin is the
// cluster's.
type Account func(ctx context.Context, program string, admin *rest.Config) (kubeconfig []byte, err error)

// employ writes a program's kubeconfig, as the fleet's options have it. Where programs are pods, charts give them
// their accounts.
func (f *Fleet) employ(ctx context.Context, where Cluster, admin client.Client, path string, as account, files []string) error {
	c, here := where.(*cluster.Cluster)
	if !here {
		return nil
	}
	if f.options.Account == nil {
		return confine(ctx, c, admin, path, as, files)
	}
	kubeconfig, err := f.options.Account(ctx, as.name, c.Config)
	if err != nil {
		return fmt.Errorf("make an account of %s: %w", as.name, err)
	}
	return os.WriteFile(path, kubeconfig, 0o600)
}
