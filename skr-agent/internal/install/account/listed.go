package account

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/internal/guard"
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

// Listed contains the metadata for all objects of each listed kind and namespace.
type Listed map[listing]map[guard.Key]*metav1.PartialObjectMetadata

// ErrNotListed means that the objects of a kind and namespace were not listed.
var ErrNotListed = errors.New("objects of this kind and namespace were not listed")

// Object returns an object's metadata, or nil if the object does not exist. It returns ErrNotListed if the objects of
// this kind and namespace were not listed.
func (l Listed) Object(k guard.Key) (*metav1.PartialObjectMetadata, error) {
	all, ok := l[listing{k.GroupKind(), k.Namespace}]
	if !ok {
		return nil, ErrNotListed
	}
	return all[k], nil
}

// List reads object metadata, with one request for each kind and namespace. The result omits groups of fewer than
// fewToList objects, lists with more than maxListed objects, and kinds that cannot be listed.
func (a *Account) List(ctx context.Context, objects []*unstructured.Unstructured) (Listed, error) {
	counts := map[listing]int{}
	versions := map[listing]schema.GroupVersion{}
	for _, o := range objects {
		k := guard.KeyOf(o)
		of := listing{k.GroupKind(), k.Namespace}
		counts[of]++
		versions[of] = o.GroupVersionKind().GroupVersion()
	}
	found := Listed{}
	for of, n := range counts {
		if n < fewToList {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(versions[of].WithKind(of.Kind + "List"))
		err := a.Client.List(ctx, list, client.InNamespace(of.namespace), client.Limit(maxListed))
		switch {
		case IsUnserved(err), IsUnconverted(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err),
			guard.IsCustomGroup(of.Group) && IsTransient(err), err == nil && list.Continue != "":
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
