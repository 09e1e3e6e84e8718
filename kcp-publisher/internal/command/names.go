package command

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// The functions in this file list candidates for shell completion. They read only the metadata of Kymas, to keep
// requests small.

func (c *controlPlane) runtimes(ctx context.Context, _ []string) ([]string, error) {
	return c.listFromKymas(ctx, plan.RuntimeID)
}

func (c *controlPlane) kymaNames(ctx context.Context, _ []string) ([]string, error) {
	return c.listFromKymas(ctx, func(kyma *v1beta2.Kyma) string { return kyma.Name })
}

func (c *controlPlane) listFromKymas(ctx context.Context, name func(*v1beta2.Kyma) string) ([]string, error) {
	api, err := c.connect()
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1beta2.GroupVersion.WithKind("KymaList"))
	if err := api.List(ctx, list, client.InNamespace(c.scope())); err != nil {
		return nil, err
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = name(&v1beta2.Kyma{ObjectMeta: list.Items[i].ObjectMeta})
	}
	return names, nil
}

func (c *controlPlane) rollouts(ctx context.Context, _ []string) ([]string, error) {
	var list v1alpha1.RolloutList
	if err := c.list(ctx, &list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, compareRollouts)
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, nil
}

func (c *controlPlane) waves(ctx context.Context, args []string) ([]string, error) {
	var list v1alpha1.RolloutList
	if err := c.list(ctx, &list); err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].Name != args[0] {
			continue
		}
		for _, w := range list.Items[i].Spec.Waves {
			names = append(names, w.Name)
		}
	}
	return names, nil
}

func (c *controlPlane) modules(ctx context.Context, _ []string) ([]string, error) {
	return c.listFromMetas(ctx, func(spec v1beta2.ModuleReleaseMetaSpec) []string { return []string{spec.ModuleName} })
}

func (c *controlPlane) versions(ctx context.Context, _ []string) ([]string, error) {
	return c.listFromMetas(ctx, func(spec v1beta2.ModuleReleaseMetaSpec) (all []string) {
		for _, channel := range spec.Channels {
			all = append(all, channel.Version)
		}
		return all
	})
}

func (c *controlPlane) channels(ctx context.Context, _ []string) ([]string, error) {
	return c.listFromMetas(ctx, func(spec v1beta2.ModuleReleaseMetaSpec) (all []string) {
		for _, channel := range spec.Channels {
			all = append(all, channel.Channel)
		}
		return all
	})
}

func (c *controlPlane) listFromMetas(
	ctx context.Context, values func(v1beta2.ModuleReleaseMetaSpec) []string,
) ([]string, error) {
	var list v1beta2.ModuleReleaseMetaList
	if err := c.list(ctx, &list); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range list.Items {
		for _, name := range values(list.Items[i].Spec) {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

func (c *controlPlane) list(ctx context.Context, list client.ObjectList) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	return api.List(ctx, list, client.InNamespace(c.scope()))
}

// completeEach completes the first eight arguments of a command from the same list.
func completeEach(cmd *cobra.Command, names cli.Names) {
	cli.Complete(cmd, names, names, names, names, names, names, names, names)
}

func compareRollouts(a, b v1alpha1.Rollout) int {
	ended := func(r v1alpha1.Rollout) int {
		if rollout.IsFinished(r.Status.State) {
			return 1
		}
		return 0
	}
	return cmp.Or(ended(a)-ended(b), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
