package guard

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Right is a permission that an account needs. If the name is empty, the permission is for all objects of the resource.
type Right struct {
	Verb, Group, Resource, Namespace, Name string
}

func (r Right) String() string {
	text := r.Verb + " " + strings.TrimSuffix(r.Resource+"."+r.Group, ".")
	if r.Name != "" {
		text += fmt.Sprintf(" %q", r.Name)
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// Plurals returns the plural resource name of a kind, which RBAC rules use. known is false for an unknown kind.
type Plurals func(schema.GroupVersionKind) (resource string, known bool)

// Work lists the objects that the agent accesses to install, maintain and remove a module.
type Work struct {
	Shared    []*unstructured.Unstructured // namespaces that no module owns; they only get labels
	Applied   []*unstructured.Unstructured
	DefaultCR *unstructured.Unstructured // created once, then not changed; can be nil
	Pruned    []PrunedObject
}

// PrunedObject is an object that an upgrade deletes.
type PrunedObject struct {
	schema.GroupVersionKind
	Namespace, Name string
}

// RightsFor returns the permissions that an account needs to install, maintain and remove a module.
func RightsFor(work Work, plural Plurals) []Right {
	plural = withDefinedPlurals(plural, work.Applied)
	var needed []Right
	add := func(gvk schema.GroupVersionKind, namespace, name string, verbs ...string) {
		resource, known := plural(gvk)
		for _, verb := range verbs {
			if known {
				needed = append(needed, Right{
					Verb: verb, Group: gvk.Group, Resource: resource, Namespace: namespace, Name: name,
				})
			}
		}
	}
	for _, o := range work.Shared {
		add(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), "get", "patch")
	}
	for _, o := range work.Applied {
		add(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), "get", "create", "patch", "delete")
		if IsCRD(o.GroupVersionKind().GroupKind()) {
			// The agent removes a CRD only after it listed the objects of the CRD's kind and found none.
			add(ServedKind(o), "", "", "list")
		}
	}
	if o := work.DefaultCR; o != nil {
		add(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), "get", "create", "delete")
	}
	for _, r := range work.Pruned {
		add(r.GroupVersionKind, r.Namespace, r.Name, "get", "delete")
	}
	return needed
}

func withDefinedPlurals(served Plurals, definitions []*unstructured.Unstructured) Plurals {
	defined := map[schema.GroupKind]string{}
	for _, o := range definitions {
		if IsCRD(o.GroupVersionKind().GroupKind()) {
			defined[ServedKind(o).GroupKind()], _, _ = unstructured.NestedString(o.Object, "spec", "names", "plural")
		}
	}
	return func(gvk schema.GroupVersionKind) (string, bool) {
		if plural := defined[gvk.GroupKind()]; plural != "" {
			return plural, true
		}
		return served(gvk)
	}
}
