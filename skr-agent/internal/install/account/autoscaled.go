package account

import (
	"cmp"
	"context"
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

// IsAutoscaled reports whether a HorizontalPodAutoscaler or KEDA can have set the current number of replicas of a
// workload. It returns false if the account is not allowed to list autoscalers.
func (a *Account) IsAutoscaled(
	ctx context.Context, r v1beta2.Resource, replicas int64, dropped object.Keys,
) (bool, error) {
	mapping, err := a.Client.RESTMapper().
		RESTMapping(schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"})
	if err != nil {
		return false, ignoreUnserved(err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind("HorizontalPodAutoscalerList"))
	if err := a.Client.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
		return false, IgnoreForbidden(ignoreUnserved(err))
	}
	scaled := slices.ContainsFunc(list.Items, func(hpa unstructured.Unstructured) bool {
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

// isScaledByKEDA reports whether a ScaledObject of KEDA scales a workload. KEDA deletes its HorizontalPodAutoscaler
// while a ScaledObject is paused.
//
// Source: KEDA documentation, "ScaledObject specification": scaleTargetRef, "Pause autoscaling".
func (a *Account) isScaledByKEDA(ctx context.Context, r v1beta2.Resource, dropped object.Keys) (bool, error) {
	mapping, err := a.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: "keda.sh", Kind: "ScaledObject"})
	if err != nil {
		return false, ignoreUnserved(err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind("ScaledObjectList"))
	if err := a.Client.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
		return false, IgnoreForbidden(ignoreUnserved(err))
	}
	return slices.ContainsFunc(list.Items, func(scaler unstructured.Unstructured) bool {
		target := func(field string) string { return object.Text(&scaler, "spec", "scaleTargetRef", field) }
		version, err := schema.ParseGroupVersion(cmp.Or(target("apiVersion"), "apps/v1"))
		return err == nil && !dropped.Has(guard.KeyOf(&scaler)) && version.Group == r.Group &&
			cmp.Or(target("kind"), "Deployment") == r.Kind && target("name") == r.Name
	}), nil
}

// scalesToZero reports whether an autoscaler can keep a workload at zero replicas. It can if its minimum is 0, or if
// KEDA manages it, because KEDA itself scales workloads to zero. Other autoscalers ignore a workload without replicas.
//
// Source: Kubernetes documentation, "Horizontal Pod Autoscaling"; KEDA documentation, "Scaling Deployments".
func scalesToZero(hpa *unstructured.Unstructured) bool {
	return object.Integer(hpa, 1, "spec", "minReplicas") == 0 ||
		slices.ContainsFunc(hpa.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
			return owner.Kind == "ScaledObject" && strings.HasPrefix(owner.APIVersion, "keda.sh/")
		})
}
