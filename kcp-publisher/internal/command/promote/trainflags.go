package promote

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
)

type trainFlags struct {
	controlplane.Flags
	format string
}

func atMostOnePolicy(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return cli.Usage(fmt.Errorf("expected at most one PromotionPolicy, got %d arguments", len(args)))
	}
	return nil
}

func (f *trainFlags) policies(
	ctx context.Context, api client.Reader, args []string,
) ([]v1alpha1.PromotionPolicy, error) {
	var list v1alpha1.PromotionPolicyList
	if err := api.List(ctx, &list, client.InNamespace(f.Scope())); err != nil {
		return nil, fmt.Errorf("list PromotionPolicies in %s: %w", f.Namespace, err)
	}
	all := list.Items
	if len(args) == 1 {
		known := make([]string, len(all))
		for i := range all {
			known[i] = all[i].Name
		}
		all = slices.DeleteFunc(all, func(p v1alpha1.PromotionPolicy) bool { return p.Name != args[0] })
		if len(all) == 0 {
			return nil,
				fmt.Errorf("PromotionPolicy %s not found in %s%s", args[0], f.Namespace, cli.ClosestNames(args[0], known))
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.PromotionPolicy) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return all, nil
}

func (f *trainFlags) policyNames(ctx context.Context, _ []string) ([]string, error) {
	var list v1alpha1.PromotionPolicyList
	if err := f.List(ctx, &list); err != nil {
		return nil, err
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, nil
}
