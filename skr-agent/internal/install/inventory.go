package install

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

type key = guard.Key

func keyOf(r v1beta2.Resource) key { return keyIn(gvkOf(r).GroupKind(), r.Namespace, r.Name) }

func keyIn(gk schema.GroupKind, namespace, name string) key {
	return key{Group: gk.Group, Kind: gk.Kind, Namespace: namespace, Name: name}
}

func resourceOf(o *unstructured.Unstructured) v1beta2.Resource {
	return v1beta2.Resource{
		Name: o.GetName(), Namespace: o.GetNamespace(), GroupVersionKind: metav1.GroupVersionKind(o.GroupVersionKind()),
	}
}

func gvkOf(r v1beta2.Resource) schema.GroupVersionKind {
	return schema.GroupVersionKind(r.GroupVersionKind)
}

// reference returns an object that identifies a resource in requests.
func reference(r v1beta2.Resource) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvkOf(r))
	o.SetNamespace(r.Namespace)
	o.SetName(r.Name)
	return o
}

type keys map[key]struct{}

func (s keys) has(k key) bool {
	_, ok := s[k]
	return ok
}

func (s keys) overlaps(other keys) bool {
	for k := range s {
		if other.has(k) {
			return true
		}
	}
	return false
}

func (s keys) keepOnly(other keys) {
	maps.DeleteFunc(s, func(k key, _ struct{}) bool { return !other.has(k) })
}

func keysOf(resources []v1beta2.Resource) keys {
	s := make(keys, len(resources))
	for _, r := range resources {
		s[keyOf(r)] = struct{}{}
	}
	return s
}

// union returns the sorted resources of both lists. If both contain an object, the version in the first list takes
// precedence.
func union(a, b []v1beta2.Resource) []v1beta2.Resource {
	all := slices.Concat(a, without(b, keysOf(a)))
	slices.SortFunc(all, func(x, y v1beta2.Resource) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return all
}

func without(resources []v1beta2.Resource, gone keys) []v1beta2.Resource {
	return slices.DeleteFunc(slices.Clone(resources), func(r v1beta2.Resource) bool { return gone.has(keyOf(r)) })
}
