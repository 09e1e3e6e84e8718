package agent

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// listManifests returns the runtime's Manifests from the cache. Callers must not modify them.
func listManifests(ctx context.Context, api client.Client) ([]v1beta2.Manifest, error) {
	var manifests v1beta2.ManifestList
	if err := api.List(ctx, &manifests, client.InNamespace(v1beta2.RuntimeNamespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Manifests: %w", err)
	}
	return manifests.Items, nil
}

// templateGenerations returns the generation of each ModuleTemplate in the runtime, by name.
func templateGenerations(ctx context.Context, api client.Client) (map[string]int64, error) {
	var templates v1beta2.ModuleTemplateList
	if err := api.List(ctx, &templates, client.InNamespace(v1beta2.RuntimeNamespace)); err != nil {
		return nil, fmt.Errorf("list ModuleTemplates: %w", err)
	}
	generations := make(map[string]int64, len(templates.Items))
	for i := range templates.Items {
		generations[templates.Items[i].Name] = templates.Items[i].Generation
	}
	return generations, nil
}

// clusterScoped returns the names of Manifests with a cluster-scoped default CR. A kind that is not served yet is
// treated as namespaced.
func clusterScoped(api client.Client, manifests []v1beta2.Manifest) map[string]bool {
	all := map[string]bool{}
	for i := range manifests {
		defaultCR := manifests[i].Spec.Resource
		if defaultCR == nil {
			continue
		}
		if namespaced, err := api.IsObjectNamespaced(defaultCR); err == nil && !namespaced {
			all[manifests[i].Name] = true
		}
	}
	return all
}
