package fleet

import (
	"context"
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/cluster"
)

// createAccount creates a program's ServiceAccount with the permissions from the fleet's options, and writes its
// kubeconfig to path. If the program runs in a pod, it does nothing, because the chart creates the account.
func (f *Fleet) createAccount(
	ctx context.Context, where Cluster, admin client.Client, path string, as account, files []string,
) error {
	c, here := where.(*cluster.Cluster)
	if !here {
		return nil
	}
	if f.options.Account == nil {
		return confine(ctx, c, admin, path, as, files)
	}
	kubeconfig, err := f.options.Account(ctx, as.name, c.Config)
	if err != nil {
		return fmt.Errorf("create the account of %s: %w", as.name, err)
	}
	return os.WriteFile(path, kubeconfig, 0o600)
}
