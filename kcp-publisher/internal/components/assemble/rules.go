package assemble

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// checkContent checks the objects and the default CR as agents and API servers would in a cluster without CRDs. The
// default CR is YAML, or empty. checkContent does not modify the objects.
func checkContent(objects []*unstructured.Unstructured, defaultCR []byte) (content.Checked, error) {
	in := content.Input{Namespace: moduleNamespace}
	for _, o := range objects {
		in.Objects = append(in.Objects, o.DeepCopy())
	}
	if len(defaultCR) > 0 {
		cr, err := render.DefaultCR(defaultCR)
		if err != nil {
			return content.Checked{}, fmt.Errorf("default CR: %w", err)
		}
		in.DefaultCR = cr
	}
	checked, err := content.Check(in)
	if err != nil {
		return content.Checked{}, err
	}
	for _, o := range checked.Objects {
		if err := render.CheckFieldTypes(o); err != nil {
			return content.Checked{}, err
		}
	}
	return checked, nil
}

// withNamespace returns a copy of an object with the namespace that an agent would set. It does not change custom
// resources' namespace, because their scope depends on the cluster.
func withNamespace(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	kind := yaml.TypeMeta{APIVersion: o.GetAPIVersion(), Kind: o.GetKind()}
	if namespaced, known := openapi.IsNamespaceScoped(kind); known {
		render.Place(o, namespaced, moduleNamespace)
	}
	return o
}
