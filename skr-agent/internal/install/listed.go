package install

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

const (
	// fewToList is the minimum number of objects of one kind and namespace that the agent reads with one list request.
	// It reads fewer objects one by one.
	fewToList = 2
	// maxListed limits the number of objects in a list request. If the namespace contains more, the agent reads the
	// module's objects one by one.
	maxListed = 100
)

// listing identifies a list request by kind and namespace.
type listing struct {
	schema.GroupKind
	namespace string
}

// listed contains the metadata of all objects of each listed kind and namespace.
type listed map[listing]map[guard.Key]*metav1.PartialObjectMetadata

var errNotListed = errors.New("kind was not listed")

// object returns the metadata of an object, or nil if the object does not exist. It returns errNotListed if the objects
// of this kind and namespace were not listed.
func (l listed) object(k guard.Key) (*metav1.PartialObjectMetadata, error) {
	all, ok := l[listing{k.GroupKind(), k.Namespace}]
	if !ok {
		return nil, errNotListed
	}
	return all[k], nil
}

// list lists the metadata of the given objects, with one request for each kind and namespace. The result omits groups
// of fewer than fewToList objects, lists with more than maxListed objects, and kinds that cannot be listed.
func (a *actor) list(ctx context.Context, objects []*unstructured.Unstructured) (listed, error) {
	counts := map[listing]int{}
	versions := map[listing]schema.GroupVersion{}
	for _, o := range objects {
		k := guard.KeyOf(o)
		of := listing{k.GroupKind(), k.Namespace}
		counts[of]++
		versions[of] = o.GroupVersionKind().GroupVersion()
	}
	found := listed{}
	for of, n := range counts {
		if n < fewToList {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(versions[of].WithKind(of.Kind + "List"))
		err := a.cluster.List(ctx, list, client.InNamespace(of.namespace), client.Limit(maxListed))
		switch {
		case isUnserved(err), isUnconverted(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err),
			err == nil && list.Continue != "":
			continue
		case err != nil:
			return nil, err
		}
		all := make(map[guard.Key]*metav1.PartialObjectMetadata, len(list.Items))
		for i := range list.Items {
			o := &list.Items[i]
			o.SetGroupVersionKind(versions[of].WithKind(of.Kind))
			all[object.KeyIn(of.GroupKind, o.Namespace, o.Name)] = o
		}
		found[of] = all
	}
	return found, nil
}

// isUndefined reports whether an object cannot exist yet, because its CRD is part of the plan and the API server does
// not serve the kind. It records such an object as absent.
func (p *plan) isUndefined(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	if !p.unserved[gvk.GroupKind()] {
		return false
	}
	for _, definition := range p.stages[0] {
		if !p.absent.Has(guard.KeyOf(definition)) || !guard.IsCRD(definition.GroupVersionKind().GroupKind()) {
			continue
		}
		if served := guard.ServedKind(definition); served.Group == gvk.Group && served.Kind == gvk.Kind {
			p.absent[guard.KeyOf(o)] = struct{}{}
			return true
		}
	}
	return false
}
