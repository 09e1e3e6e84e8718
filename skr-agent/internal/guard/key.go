package guard

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key identifies an object. It has no version: an object stays the same object when it is applied in another version.
type Key struct {
	Group, Kind, Namespace, Name string
}

// KeyOf returns the key of an object.
func KeyOf(o *unstructured.Unstructured) Key {
	gvk := o.GroupVersionKind()
	return Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

// GroupKind returns the kind of the object.
func (k Key) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Kind} }

// IsCRD reports whether a kind is CustomResourceDefinition.
func IsCRD(gk schema.GroupKind) bool {
	return gk == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

// IsNamespace reports whether a kind is Namespace.
func IsNamespace(gk schema.GroupKind) bool { return gk == schema.GroupKind{Kind: "Namespace"} }

// IsCustom reports whether CRDs define the kinds of a group. The groups of Kubernetes have no dot, or end in k8s.io.
func IsCustom(group string) bool {
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// ServedKind returns the kind that a definition serves.
func ServedKind(definition *unstructured.Unstructured) schema.GroupVersionKind {
	var gvk schema.GroupVersionKind
	gvk.Group, _, _ = unstructured.NestedString(definition.Object, "spec", "group")
	gvk.Kind, _, _ = unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		if version, ok := v.(map[string]any); ok && version["served"] == true {
			gvk.Version, _ = version["name"].(string)
		}
	}
	return gvk
}
