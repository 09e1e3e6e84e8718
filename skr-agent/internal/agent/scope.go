package agent

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

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
