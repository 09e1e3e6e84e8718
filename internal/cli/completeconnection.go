package cli

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// CompleteConnections adds shell completion for connection flags to all commands. Contexts, clusters and users come
// from the kubeconfig. Namespaces come from the API server.
func CompleteConnections(root *cobra.Command) {
	for flag, names := range map[string]func(context.Context, *Cluster) ([]string, error){
		"context": contexts, "cluster": clusters, "user": users, "namespace": namespaces,
	} {
		if root.Flag(flag) == nil || root.Flag("kubeconfig") == nil {
			continue
		}
		// Registration fails if the command already has a completion for the flag.
		_ = root.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string,
			cobra.ShellCompDirective) {
			return listed(cmd.Context(), nil, func(ctx context.Context, _ []string) ([]string,
				error) {
				return names(ctx, clusterFlags(cmd.Flags()))
			})
		})
	}
	for _, cmd := range root.Commands() {
		CompleteConnections(cmd)
	}
}

// clusterFlags returns a Cluster with the values of a command's connection flags.
func clusterFlags(set *pflag.FlagSet) *Cluster {
	c, flags := &Cluster{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(flags, "")
	set.Visit(func(flag *pflag.Flag) {
		if flags.Lookup(flag.Name) != nil {
			_ = flags.Set(flag.Name, flag.Value.String()) // if this fails, completion uses the default
		}
	})
	return c
}

func contexts(_ context.Context, c *Cluster) ([]string, error) {
	config, err := c.loader().RawConfig()
	return slices.Sorted(maps.Keys(config.Contexts)), err
}

func clusters(_ context.Context, c *Cluster) ([]string, error) {
	config, err := c.loader().RawConfig()
	return slices.Sorted(maps.Keys(config.Clusters)), err
}

func users(_ context.Context, c *Cluster) ([]string, error) {
	config, err := c.loader().RawConfig()
	return slices.Sorted(maps.Keys(config.AuthInfos)), err
}

// namespaces lists all namespaces by name. It uses the discovery client's REST client to avoid another dependency.
func namespaces(ctx context.Context, c *Cluster) ([]string, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	data, err := api.RESTClient().Get().AbsPath("/api/v1/namespaces").
		SetHeader("Accept",
			"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io, application/json").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, nil
}
