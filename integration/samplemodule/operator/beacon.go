package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	labelUses = "beacon.kyma-pull.dev/uses"
	finalizer = "beacon.kyma-pull.dev/operator"
	owner     = client.FieldOwner("beacon-operator")
)

func newBeacon() *unstructured.Unstructured {
	beacon := &unstructured.Unstructured{}
	beacon.SetAPIVersion("beacon.kyma-pull.dev/v1")
	beacon.SetKind("Beacon")
	return beacon
}

// beaconRequest returns a reconcile request for the Beacon in the ConfigMap's label.
func beaconRequest(_ context.Context, config client.Object) []reconcile.Request {
	return []reconcile.Request{
		{NamespacedName: types.NamespacedName{Namespace: config.GetNamespace(), Name: config.GetLabels()[labelUses]}},
	}
}

type reconciler struct {
	client.Client
	version string
}

// Reconcile creates a Beacon's ConfigMap. If the Beacon is deleted, Reconcile removes the finalizer once no ConfigMap
// uses the Beacon.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	beacon := newBeacon()
	if err := r.Get(ctx, request.NamespacedName, beacon); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if beacon.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, r.release(ctx, beacon)
	}
	before := beacon.DeepCopy()
	if controllerutil.AddFinalizer(beacon, finalizer) {
		if err := r.Patch(ctx, beacon, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.answer(ctx, beacon); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.setState(ctx, beacon, "Ready", "")
}

func (r *reconciler) answer(ctx context.Context, beacon *unstructured.Unstructured) error {
	text, _, err := unstructured.NestedString(beacon.Object, "spec", "text")
	if err != nil {
		return err
	}
	config := &unstructured.Unstructured{
		Object: map[string]any{"data": map[string]any{"text": text, "version": r.version}},
	}
	config.SetAPIVersion("v1")
	config.SetKind("ConfigMap")
	config.SetNamespace(beacon.GetNamespace())
	config.SetName("beacon-" + beacon.GetName())
	if err := controllerutil.SetControllerReference(beacon, config, r.Scheme()); err != nil {
		return err
	}
	return r.Apply(ctx, client.ApplyConfigurationFromUnstructured(config), owner, client.ForceOwnership)
}

// release removes the finalizer unless a ConfigMap still uses the Beacon.
func (r *reconciler) release(ctx context.Context, beacon *unstructured.Unstructured) error {
	var users corev1.ConfigMapList
	err := r.List(ctx, &users, client.InNamespace(beacon.GetNamespace()),
		client.MatchingLabels{labelUses: beacon.GetName()})
	if err != nil {
		return err
	}
	if len(users.Items) > 0 {
		return r.setState(ctx, beacon, "Warning", fmt.Sprintf("ConfigMap %s uses this Beacon", users.Items[0].Name))
	}
	before := beacon.DeepCopy()
	controllerutil.RemoveFinalizer(beacon, finalizer)
	return client.IgnoreNotFound(r.Patch(ctx, beacon, client.MergeFrom(before)))
}

func (r *reconciler) setState(ctx context.Context, beacon *unstructured.Unstructured, state, message string) error {
	before := beacon.DeepCopy()
	status := map[string]any{"state": state, "message": message, "version": r.version}
	if err := unstructured.SetNestedMap(beacon.Object, status, "status"); err != nil {
		return err
	}
	return r.Status().Patch(ctx, beacon, client.MergeFrom(before))
}
