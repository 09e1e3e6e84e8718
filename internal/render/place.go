package render

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Place sets an object's namespace. It removes the namespace if the kind is cluster-scoped. Otherwise, it sets fallback
// if the object has no namespace.
func Place(o *unstructured.Unstructured, namespaced bool, fallback string) {
	switch {
	case !namespaced:
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(fallback)
	}
}
