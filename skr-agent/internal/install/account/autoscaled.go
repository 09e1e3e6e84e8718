package account

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// IsAutoscaled reports whether a HorizontalPodAutoscaler or KEDA can have set a workload's current number of replicas.
func (a *Account) IsAutoscaled(
	ctx context.Context, r v1beta2.Resource, replicas int64, dropped object.Keys,
) (bool, error) {
	autoscalers, err := a.listServed(ctx, schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"},
		r.Namespace)
	if err != nil {
		return false, err
	}
	scaled := slices.ContainsFunc(autoscalers, func(hpa unstructured.Unstructured) bool {
		version, err := schema.ParseGroupVersion(object.Text(&hpa, "spec", "scaleTargetRef", "apiVersion"))
		return err == nil && !dropped.Has(guard.KeyOf(&hpa)) && version.Group == r.Group &&
			(replicas != 0 || scalesToZero(&hpa)) &&
			object.Text(&hpa, "spec", "scaleTargetRef", "kind") == r.Kind &&
			object.Text(&hpa, "spec", "scaleTargetRef", "name") == r.Name
	})
	if scaled {
		return true, nil
	}
	return a.isScaledByKEDA(ctx, r, dropped)
}

// isScaledByKEDA reports whether a KEDA ScaledObject scales a workload. KEDA deletes its HorizontalPodAutoscaler while
// a ScaledObject is paused.
//
// Source: KEDA documentation, "ScaledObject specification": scaleTargetRef, "Pause autoscaling".
func (a *Account) isScaledByKEDA(ctx context.Context, r v1beta2.Resource, dropped object.Keys) (bool, error) {
	scalers, err := a.listServed(ctx, schema.GroupKind{Group: "keda.sh", Kind: "ScaledObject"}, r.Namespace)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(scalers, func(scaler unstructured.Unstructured) bool {
		target := func(field string) string { return object.Text(&scaler, "spec", "scaleTargetRef", field) }
		version, err := schema.ParseGroupVersion(cmp.Or(target("apiVersion"), "apps/v1"))
		return err == nil && !dropped.Has(guard.KeyOf(&scaler)) && version.Group == r.Group &&
			cmp.Or(target("kind"), "Deployment") == r.Kind && target("name") == r.Name
	}), nil
}

// listServed returns the objects of a kind in a namespace, in any served version. It returns nothing if the kind is not
// served. The RESTMapper can contain a version that the API server does not serve anymore.
func (a *Account) listServed(
	ctx context.Context, gk schema.GroupKind, namespace string,
) ([]unstructured.Unstructured, error) {
	mapping, err := a.Client.RESTMapper().RESTMapping(gk)
	if err != nil {
		return nil, ignoreUnserved(err)
	}
	list := &unstructured.UnstructuredList{}
	err = a.inAnyVersion(v1beta2.Resource{GroupVersionKind: metav1.GroupVersionKind(mapping.GroupVersionKind)},
		func(r v1beta2.Resource) error {
			list.SetGroupVersionKind(object.GVKOf(r).GroupVersion().WithKind(r.Kind + "List"))
			return a.Client.List(ctx, list, client.InNamespace(namespace))
		})
	if err != nil {
		if errors.Is(err, ErrAbsentKind) {
			return nil, nil
		}
		return nil, ignoreUnserved(err)
	}
	return list.Items, nil
}

// scalesToZero reports whether an autoscaler can keep a workload at zero replicas. An autoscaler can do so if its
// minimum is 0, or if KEDA manages the autoscaler, because KEDA itself scales workloads to zero. Other autoscalers
// ignore a workload without replicas.
//
// Source: Kubernetes documentation, "Horizontal Pod Autoscaling"; KEDA documentation, "Scaling Deployments".
func scalesToZero(hpa *unstructured.Unstructured) bool {
	return object.Integer(hpa, 1, "spec", "minReplicas") == 0 ||
		slices.ContainsFunc(hpa.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
			return owner.Kind == "ScaledObject" && strings.HasPrefix(owner.APIVersion, "keda.sh/")
		})
}
