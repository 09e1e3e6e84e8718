package controlplane

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

// Runtimes lists runtime IDs.
func (c *Flags) Runtimes(ctx context.Context, _ []string) ([]string, error) {
	return c.listFromKymas(ctx, plan.RuntimeID)
}

// KymaNames lists the names of Kymas.
func (c *Flags) KymaNames(ctx context.Context, _ []string) ([]string, error) {
	return c.listFromKymas(ctx, func(kyma *v1beta2.Kyma) string { return kyma.Name })
}

func (c *Flags) listFromKymas(ctx context.Context, name func(*v1beta2.Kyma) string) ([]string, error) {
	api, err := c.Connect()
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1beta2.GroupVersion.WithKind("KymaList"))
	if err := api.List(ctx, list, client.InNamespace(c.Scope())); err != nil {
		return nil, err
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = name(&v1beta2.Kyma{ObjectMeta: list.Items[i].ObjectMeta})
	}
	return names, nil
}

// Rollouts lists the names of Rollouts, active ones first.
func (c *Flags) Rollouts(ctx context.Context, _ []string) ([]string, error) {
	var list v1alpha1.RolloutList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, CompareRollouts)
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, nil
}

// Waves lists the waves of the Rollout in the first argument.
func (c *Flags) Waves(ctx context.Context, args []string) ([]string, error) {
	var list v1alpha1.RolloutList
	if err := c.List(ctx, &list); err != nil {
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

// Modules lists the modules in the catalog.
func (c *Flags) Modules(ctx context.Context, _ []string) ([]string, error) {
	return c.listFromMetas(ctx, func(spec v1beta2.ModuleReleaseMetaSpec) []string { return []string{spec.ModuleName} })
}

// Versions lists the module versions in all channels.
func (c *Flags) Versions(ctx context.Context, _ []string) ([]string, error) {
	return c.listFromMetas(ctx, func(spec v1beta2.ModuleReleaseMetaSpec) (all []string) {
		for _, channel := range spec.Channels {
			all = append(all, channel.Version)
		}
		return all
	})
}

// Channels lists the channels of all modules.
func (c *Flags) Channels(ctx context.Context, _ []string) ([]string, error) {
	return c.listFromMetas(ctx, func(spec v1beta2.ModuleReleaseMetaSpec) (all []string) {
		for _, channel := range spec.Channels {
			all = append(all, channel.Channel)
		}
		return all
	})
}

func (c *Flags) listFromMetas(
	ctx context.Context, values func(v1beta2.ModuleReleaseMetaSpec) []string,
) ([]string, error) {
	var list v1beta2.ModuleReleaseMetaList
	if err := c.List(ctx, &list); err != nil {
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

// List reads objects of the selected namespaces.
func (c *Flags) List(ctx context.Context, list client.ObjectList) error {
	api, err := c.Connect()
	if err != nil {
		return err
	}
	return api.List(ctx, list, client.InNamespace(c.Scope()))
}

// CompleteEach completes the first eight arguments of a command from the same list.
func CompleteEach(cmd *cobra.Command, names cli.Names) {
	cli.Complete(cmd, names, names, names, names, names, names, names, names)
}

// CompareRollouts orders active Rollouts before finished ones, and newer before older ones.
func CompareRollouts(a, b v1alpha1.Rollout) int {
	ended := func(r v1alpha1.Rollout) int {
		if rollout.IsFinished(r.Status.State) {
			return 1
		}
		return 0
	}
	return cmp.Or(ended(a)-ended(b), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
