package rollout

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
)

type rolloutFlags struct {
	controlplane.Flags
	format string
}

func (f *rolloutFlags) find(ctx context.Context, api client.Client, name string) (*v1alpha1.Rollout, error) {
	one := &v1alpha1.Rollout{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, one); err != nil {
		return nil, addListHint(fmt.Errorf("read Rollout %s/%s: %w", f.Namespace, name, err))
	}
	one.ManagedFields = nil
	one.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Rollout"))
	return one, nil
}

// addListHint adds the command that lists all rollouts to a not-found error.
func addListHint(err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%w: see `kcp-publisher rollout list -A` for all rollouts", err)
}
