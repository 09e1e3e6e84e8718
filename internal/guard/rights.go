package guard

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Permission is a permission that an account needs. If the name is empty, the permission is for all objects with this
// resource.
type Permission struct {
	Verb, Group, Resource, Namespace, Name string
}

func (r Permission) String() string {
	text := r.Verb + " " + strings.TrimSuffix(r.Resource+"."+r.Group, ".")
	if r.Name != "" {
		text += fmt.Sprintf(" %q", r.Name)
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// Plurals is a function that returns the plural resource name of a kind, as in RBAC rules. known is false
// for an unknown kind.
type Plurals func(schema.GroupVersionKind) (resource string, known bool)

// AccessedObjects lists the objects that the agent accesses to install, maintain and remove a module.
type AccessedObjects struct {
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

// RequiredPermissions returns the permissions that an account needs to install, maintain and remove a module.
func RequiredPermissions(objects AccessedObjects, plural Plurals) []Permission {
	plural = withDefinedPlurals(plural, objects.Applied)
	var needed []Permission
	add := func(gvk schema.GroupVersionKind, namespace, name string, verbs ...string) {
		resource, known := plural(gvk)
		for _, verb := range verbs {
			if known {
				needed = append(needed, Permission{
					Verb: verb, Group: gvk.Group, Resource: resource, Namespace: namespace, Name: name,
				})
			}
		}
	}
	for _, o := range objects.Shared {
		add(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), "get", "patch")
	}
	for _, o := range objects.Applied {
		add(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), "get", "create", "patch", "delete")
		if IsCRD(o.GroupVersionKind().GroupKind()) {
			// The agent removes a CRD only after it listed the objects of the CRD's kind and found none.
			add(ServedKind(o), "", "", "list")
		}
	}
	if o := objects.DefaultCR; o != nil {
		add(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), "get", "create", "delete")
	}
	for _, r := range objects.Pruned {
		add(r.GroupVersionKind, r.Namespace, r.Name, "get", "delete")
	}
	return needed
}

func withDefinedPlurals(plural Plurals, definitions []*unstructured.Unstructured) Plurals {
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
		return plural(gvk)
	}
}
