package install

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// key tells objects apart. It has no version: an object stays the same when it is applied in another one.
type key struct {
	group, kind, namespace, name string
}

func keyOf(r v1beta2.Resource) key { return key{r.Group, r.Kind, r.Namespace, r.Name} }

func keyOfObject(o *unstructured.Unstructured) key {
	gvk := o.GroupVersionKind()
	return key{gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName()}
}

func (k key) String() string {
	if k.namespace == "" {
		return k.kind + " " + k.name
	}
	return k.kind + " " + k.namespace + "/" + k.name
}

func resourceOf(o *unstructured.Unstructured) v1beta2.Resource {
	return v1beta2.Resource{
		Name: o.GetName(), Namespace: o.GetNamespace(), GroupVersionKind: metav1.GroupVersionKind(o.GroupVersionKind()),
	}
}

func gvkOf(r v1beta2.Resource) schema.GroupVersionKind {
	return schema.GroupVersionKind(r.GroupVersionKind)
}

// reference is an object that stands for a resource in requests.
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

// keepOnly removes what is not in the other set.
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

// union returns both lists, sorted; where both have an object, the first list's version counts.
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

func isCRD(gk schema.GroupKind) bool {
	return gk == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

func isNamespace(gk schema.GroupKind) bool { return gk == schema.GroupKind{Kind: "Namespace"} }
