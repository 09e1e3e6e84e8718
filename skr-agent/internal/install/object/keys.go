package object

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// KeyOf returns the key for a resource in an inventory. guard.KeyOf returns the key for an object.
func KeyOf(r v1beta2.Resource) guard.Key { return KeyIn(GVKOf(r).GroupKind(), r.Namespace, r.Name) }

// KeyIn returns the key for an object of the given kind.
func KeyIn(gk schema.GroupKind, namespace, name string) guard.Key {
	return guard.Key{Group: gk.Group, Kind: gk.Kind, Namespace: namespace, Name: name}
}

// ResourceOf returns an object's inventory entry.
func ResourceOf(o *unstructured.Unstructured) v1beta2.Resource {
	return v1beta2.Resource{
		Name: o.GetName(), Namespace: o.GetNamespace(), GroupVersionKind: metav1.GroupVersionKind(o.GroupVersionKind()),
	}
}

// ResourcesOf returns the objects' inventory entries.
func ResourcesOf(objects []*unstructured.Unstructured) []v1beta2.Resource {
	resources := make([]v1beta2.Resource, len(objects))
	for i, o := range objects {
		resources[i] = ResourceOf(o)
	}
	return resources
}

// GVKOf returns the group, version and kind of r as a schema.GroupVersionKind.
func GVKOf(r v1beta2.Resource) schema.GroupVersionKind {
	return schema.GroupVersionKind(r.GroupVersionKind)
}

// Reference returns an object that identifies a resource in requests.
func Reference(r v1beta2.Resource) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(GVKOf(r))
	o.SetNamespace(r.Namespace)
	o.SetName(r.Name)
	return o
}

// Keys is a set of objects.
type Keys map[guard.Key]struct{}

// KeysOf returns the keys of resources.
func KeysOf(resources []v1beta2.Resource) Keys {
	s := make(Keys, len(resources))
	for _, r := range resources {
		s[KeyOf(r)] = struct{}{}
	}
	return s
}

// Has reports whether the set contains an object.
func (s Keys) Has(k guard.Key) bool {
	_, ok := s[k]
	return ok
}

// Overlaps reports whether two sets have an object in common.
func (s Keys) Overlaps(other Keys) bool {
	for k := range s {
		if other.Has(k) {
			return true
		}
	}
	return false
}

// KeepOnly removes all objects that are not in other.
func (s Keys) KeepOnly(other Keys) {
	maps.DeleteFunc(s, func(k guard.Key, _ struct{}) bool { return !other.Has(k) })
}

// Union returns the sorted resources of both lists. If both contain an object, the version in the first list takes
// precedence.
func Union(a, b []v1beta2.Resource) []v1beta2.Resource {
	all := slices.Concat(a, Without(b, KeysOf(a)))
	slices.SortFunc(all, func(x, y v1beta2.Resource) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// Without returns the resources that are not in excluded.
func Without(resources []v1beta2.Resource, excluded Keys) []v1beta2.Resource {
	return slices.DeleteFunc(slices.Clone(resources), func(r v1beta2.Resource) bool { return excluded.Has(KeyOf(r)) })
}

// Among returns the resources that are in wanted.
func Among(resources []v1beta2.Resource, wanted Keys) []v1beta2.Resource {
	return slices.DeleteFunc(slices.Clone(resources), func(r v1beta2.Resource) bool { return !wanted.Has(KeyOf(r)) })
}
