package command

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func findKyma(ctx context.Context, reader client.Reader, namespace, id string) (*v1beta2.Kyma, error) {
	var kymas v1beta2.KymaList
	if err := reader.List(ctx, &kymas, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Kymas in %s: %w", namespace, err)
	}
	return chooseKyma(kymas.Items, namespace, id)
}

func unknownRuntime(id, where string, known []string) error {
	return fmt.Errorf("runtime %s: no Kyma in %s has that runtime ID or name%s", id, where, cli.ClosestNames(id, known))
}

// chooseKyma returns the Kyma that owns the runtime ID or, without an owner, a Kyma with this ID.
func chooseKyma(kymas []v1beta2.Kyma, namespace, id string) (*v1beta2.Kyma, error) {
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
	return nil, unknownRuntime(id, "namespace "+namespace, names)
}
