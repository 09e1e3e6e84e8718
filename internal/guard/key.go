package guard

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key identifies an object independent of its API version.
type Key struct {
	Group, Kind, Namespace, Name string
}

// KeyOf returns the key for an object.
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

// IsCustomGroup reports whether a group is not built into Kubernetes, such as gateway.networking.k8s.io.
func IsCustomGroup(group string) bool { return !slices.Contains(kubernetesGroups, group) }

// kubernetesGroups are kube-apiserver's built-in API groups.
var kubernetesGroups = []string{
	"", AdmissionGroup, "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "authentication.k8s.io",
	"authorization.k8s.io",
	"autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
	"extensions",
	flowControlGroup, "imagepolicy.k8s.io", "internal.apiserver.k8s.io", "lifecycle.k8s.io", "networking.k8s.io",
	"node.k8s.io", "policy", rbacGroup,
	"resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
}

// ServedKind returns the kind that a CRD defines, in the first version that ServedVersions returns.
func ServedKind(definition *unstructured.Unstructured) schema.GroupVersionKind {
	var gvk schema.GroupVersionKind
	gvk.Group, _, _ = unstructured.NestedString(definition.Object, "spec", "group")
	gvk.Kind, _, _ = unstructured.NestedString(definition.Object, "spec", "names", "kind")
	if versions := ServedVersions(definition); len(versions) > 0 {
		gvk.Version = versions[0]
	}
	return gvk
}

// ServedVersions returns a CRD's versions that the API server serves. The storage version is first, because the API
// server reads it without a conversion.
func ServedVersions(definition *unstructured.Unstructured) []string {
	all, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	var served []string
	for _, v := range all {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		switch {
		case name == "" || version["served"] != true:
		case version["storage"] == true:
			served = slices.Insert(served, 0, name)
		default:
			served = append(served, name)
		}
	}
	return served
}
