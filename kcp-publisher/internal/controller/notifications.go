package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
)

// HasKyma reports whether a Kyma exists for this runtime ID.
func (k *Kymas) HasKyma(ctx context.Context, runtime string) bool {
	kymas, err := k.kymaNames(ctx, runtime)
	return err == nil && len(kymas) > 0
}

// ReadReport queues the Kymas with this runtime ID after a notification about a new report. Their next reconcile always
// reads the report from the registry.
func (k *Kymas) ReadReport(ctx context.Context, runtime string) error {
	kymas, err := k.kymaNames(ctx, runtime)
	if err != nil {
		return err
	}
	for _, name := range kymas {
		k.reports.recordNotification(name)
		if err := sendEvent(ctx, k.Catalog.Reconciles, newNotified(name, runtime)); err != nil {
			return err
		}
	}
	return nil
}

type notifiedRuntime struct{ *v1beta2.Kyma }

func newNotified(name types.NamespacedName, runtime string) notifiedRuntime {
	kyma := &v1beta2.Kyma{}
	kyma.Namespace, kyma.Name = name.Namespace, name.Name
	// priorityHandler reads this label to determine the priority.
	kyma.Labels = map[string]string{v1beta2.LabelRuntimeID: runtime}
	return notifiedRuntime{kyma}
}

func (k *Kymas) kymaNames(ctx context.Context, runtime string) ([]types.NamespacedName, error) {
	kymas, err := k.kymasForRuntime(ctx, k.Catalog.Namespace, runtime)
	if err != nil {
		return nil, err
	}
	names := make([]types.NamespacedName, len(kymas))
	for i := range kymas {
		names[i] = client.ObjectKeyFromObject(&kymas[i])
	}
	return names, nil
}

// recordNotification makes the next reconcile of a Kyma read the report from the registry.
func (r *reportReader) recordNotification(kyma types.NamespacedName) {
	r.fleet.Edit(kyma, func(known *fleetstate.Runtime) { known.NotifiedCount++ })
}
