package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// createChecksAccount creates the ServiceAccount that module checks use. If a chart is installed, it does nothing,
// because the chart creates the account.
func (r *Runtime) createChecksAccount(ctx context.Context) error {
	if _, here := cmp.Or(r.cluster, r.fleet.kcp).(*cluster.Cluster); !here || r.fleet.options.Account != nil {
		return nil
	}
	// These clusters run no controller that aggregates rules into the ClusterRole "view". Bind the role that contains
	// the aggregated rules instead.
	rules := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "checks"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-view",
		},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: agentAccount.namespace, Name: "skr-agent-checks",
		}},
	}
	return errors.Join(ApplyChartFile(ctx, r.API, agentAccount.chart, "rbac", "checks.yaml"), r.API.Create(ctx, rules))
}
