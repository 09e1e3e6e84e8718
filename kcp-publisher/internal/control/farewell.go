package control

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// hold keeps a Kyma from disappearing before its runtime was told. It says when there is nothing more to do: the Kyma is
// deleted and was let go.
func (k *Kymas) hold(ctx context.Context, kyma *v1beta2.Kyma) (done bool, err error) {
	if !kyma.DeletionTimestamp.IsZero() {
		return !controllerutil.ContainsFinalizer(kyma, v1beta2.FinalizerKyma), nil
	}
	before := kyma.DeepCopy()
	if !controllerutil.AddFinalizer(kyma, v1beta2.FinalizerKyma) {
		return false, nil
	}
	if err := k.Client.Patch(ctx, kyma, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("add finalizer to Kyma %s/%s: %w", kyma.Namespace, kyma.Name, client.IgnoreNotFound(err))
	}
	return false, nil
}

// letGo lets a deleted Kyma disappear once its runtime is empty, or once there is nobody to wait for any more.
func (k *Kymas) letGo(ctx context.Context, kyma *v1beta2.Kyma, published *publish.Published, report *bundle.AcceptedReport) (done bool, err error) {
	if kyma.DeletionTimestamp.IsZero() {
		return false, nil
	}
	reason, message := farewell(kyma, published, report, k.Farewell, k.Now())
	if reason == "" {
		return false, nil
	}
	before := kyma.DeepCopy()
	controllerutil.RemoveFinalizer(kyma, v1beta2.FinalizerKyma)
	if err := k.Client.Patch(ctx, kyma, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("remove finalizer of Kyma %s/%s: %w", kyma.Namespace, kyma.Name, client.IgnoreNotFound(err))
	}
	kind := corev1.EventTypeNormal
	if reason != reasonEmpty {
		kind = corev1.EventTypeWarning
	}
	k.Events.Eventf(kyma, nil, kind, reason, "Delete", "%s", message)
	ctrl.LoggerFrom(ctx).Info("let go of a deleted Kyma", "runtime", RuntimeID(kyma), "reason", reason)
	return true, nil
}

// Why a deleted Kyma is let go.
const (
	reasonEmpty   = "RuntimeEmpty"
	reasonForced  = "DeletionForced"
	reasonUnknown = "RuntimeNeverReported"
	reasonTimeout = "DeletionTimeout"
)

// farewell decides whether a deleted Kyma may go; an empty reason means that it has to wait.
func farewell(kyma *v1beta2.Kyma, published *publish.Published, report *bundle.AcceptedReport, patience time.Duration, now time.Time) (reason, message string) {
	runtime := RuntimeID(kyma)
	switch waited := now.Sub(kyma.DeletionTimestamp.Time); {
	case report != nil && report.Observed != nil && report.Observed.Digest == published.Digest && published.Predicate.Deleting &&
		len(report.Modules) == 0 && report.Kyma == nil:
		return reasonEmpty, fmt.Sprintf("runtime %s has removed all modules", runtime)
	case kyma.Labels[v1beta2.LabelForceDeletion] == v1beta2.True:
		return reasonForced, fmt.Sprintf("runtime %s was not waited for: its last bundle tells it to remove all modules whenever it looks", runtime)
	case kyma.Status.Runtime == nil || kyma.Status.Runtime.Observed == nil:
		return reasonUnknown, fmt.Sprintf("runtime %s never reported, so that there is nobody to wait for", runtime)
	case waited > patience:
		return reasonTimeout, fmt.Sprintf("runtime %s did not report to be empty within %s: its last bundle tells it to remove all modules whenever it looks", runtime, patience)
	}
	return "", ""
}
