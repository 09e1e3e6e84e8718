package assemble

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// checkRules returns an error if an object or the default CR breaks a rule for the content of modules. Agents check the
// same rules. defaultCR is YAML, or empty.
func checkRules(objects []*unstructured.Unstructured, defaultCR []byte) error {
	placed := make([]*unstructured.Unstructured, 0, len(objects)+1)
	for _, o := range objects {
		placed = append(placed, withNamespace(o))
	}
	if len(defaultCR) > 0 {
		cr, err := render.DefaultCR(defaultCR)
		if err != nil {
			return fmt.Errorf("default CR: %w", err)
		}
		placed = append(placed, withNamespace(cr))
	}
	return guard.Check(placed, moduleNamespace)
}

// withNamespace returns a copy of an object with the namespace that an agent sets. It does not change the namespace
// of custom resources, because their scope depends on the cluster.
func withNamespace(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	kind := yaml.TypeMeta{APIVersion: o.GetAPIVersion(), Kind: o.GetKind()}
	if namespaced, known := openapi.IsNamespaceScoped(kind); known {
		render.Place(o, namespaced, moduleNamespace)
	}
	return o
}
