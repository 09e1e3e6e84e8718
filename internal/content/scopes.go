package content

import (
	"errors"

	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// ErrUnknownKind means that the API server does not serve a kind.
var ErrUnknownKind = errors.New("the API server does not serve this kind")

// Scope reports whether a kind is namespaced. It returns ErrUnknownKind for a kind that the API server does not serve.
type Scope func(schema.GroupVersionKind) (namespaced bool, err error)

// builtInScope is the Scope for a cluster with only Kubernetes' own kinds.
func builtInScope(gvk schema.GroupVersionKind) (bool, error) {
	namespaced, known := openapi.IsNamespaceScoped(
		yaml.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind})
	if !known {
		return false, ErrUnknownKind
	}
	return namespaced, nil
}

// definedKinds returns the served kinds of the CRDs among the objects, and whether they are namespaced.
func definedKinds(objects []*unstructured.Unstructured) map[schema.GroupVersionKind]bool {
	defined := map[schema.GroupVersionKind]bool{}
	for _, o := range objects {
		if !utils.IsCRD(o) {
			continue
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		for _, v := range versions {
			version, _ := v.(map[string]any)
			if name, ok := version["name"].(string); ok && version["served"] == true {
				defined[schema.GroupVersionKind{Group: group, Version: name, Kind: kind}] = scope == "Namespaced"
			}
		}
	}
	return defined
}

// withDefinitions returns a function that reports a kind's scope from the API server, or from a CRD in the module's
// content if the API server does not serve the kind. It also returns a map that collects the kinds that only the
// content defines.
func withDefinitions(
	served Scope, defined map[schema.GroupVersionKind]bool,
) (withContent Scope, unserved map[schema.GroupKind]bool) {
	unserved = map[schema.GroupKind]bool{}
	return func(gvk schema.GroupVersionKind) (bool, error) {
		namespaced, ok := defined[gvk]
		if !ok {
			return served(gvk)
		}
		kind := gvk.GroupKind()
		if unserved[kind] { // skip a lookup that would send discovery requests again
			return namespaced, nil
		}
		// Look the kind up with its version. A lookup without a version uses a cache, which can be outdated.
		live, err := served(gvk)
		if errors.Is(err, ErrUnknownKind) {
			live, err = served(kind.WithVersion(""))
		}
		if errors.Is(err, ErrUnknownKind) {
			unserved[kind] = true
			return namespaced, nil
		}
		return live, err
	}, unserved
}
