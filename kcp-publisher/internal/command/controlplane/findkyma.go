package controlplane

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// FindKyma reads the Kyma of a runtime. id is a runtime ID or the name of a Kyma.
func FindKyma(ctx context.Context, reader client.Reader, namespace, id string) (*v1beta2.Kyma, error) {
	var kymas v1beta2.KymaList
	if err := reader.List(ctx, &kymas, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Kymas in %s: %w", namespace, err)
	}
	return ChooseKyma(kymas.Items, namespace, id)
}

// UnknownRuntime returns the error for an unknown runtime, with the closest known name.
func UnknownRuntime(id, where string, known []string) error {
	return fmt.Errorf("runtime %s: no Kyma in %s has that runtime ID or name%s", id, where, cli.ClosestNames(id, known))
}

// ChooseKyma returns the Kyma that owns the runtime ID or, without an owner, a Kyma with this ID.
func ChooseKyma(kymas []v1beta2.Kyma, namespace, id string) (*v1beta2.Kyma, error) {
	if owner := plan.NewOwners(kymas)[id]; owner != nil {
		return owner, nil
	}
	names := make([]string, 0, 2*len(kymas))
	for i := range kymas {
		if plan.RuntimeID(&kymas[i]) == id {
			return &kymas[i], nil
		}
		names = append(names, plan.RuntimeID(&kymas[i]), kymas[i].Name)
	}
	return nil, UnknownRuntime(id, "namespace "+namespace, names)
}
