package fleet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// SetQuota creates or changes a ResourceQuota. It also writes the quota's status, because the test clusters have no
// controller for quotas.
func SetQuota(ctx context.Context, api client.Client, name metav1.ObjectMeta, hard, used corev1.ResourceList) error {
	quota := &corev1.ResourceQuota{ObjectMeta: name}
	if _, err := controllerutil.CreateOrUpdate(ctx, api, quota, func() error {
		quota.Spec.Hard = hard
		return nil
	}); err != nil {
		return fmt.Errorf("set ResourceQuota %s/%s: %w", name.Namespace, name.Name, err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: used}
	if err := api.Status().Update(ctx, quota); err != nil {
		return fmt.Errorf("set the status of ResourceQuota %s/%s: %w", name.Namespace, name.Name, err)
	}
	return nil
}
