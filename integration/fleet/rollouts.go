package fleet

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// PolicyName is the name of the RolloutPolicy that CreatePolicy creates.
const PolicyName = "careful"

// CreatePolicy creates a RolloutPolicy with the given waves for a module in all channels.
func (f *Fleet) CreatePolicy(ctx context.Context, module string, course v1alpha1.Course) error {
	return f.Control.Create(ctx, &v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: f.Own(PolicyName)},
		Spec:       v1alpha1.RolloutPolicySpec{Modules: []string{module}, Course: course},
	})
}

// Rollout returns a rollout by its name.
func (f *Fleet) Rollout(ctx context.Context, name string) (*v1alpha1.Rollout, error) {
	rollout := &v1alpha1.Rollout{}
	err := f.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: name}, rollout)
	return rollout, err
}

// UntilRollout waits until isMet returns true for a rollout's status. The error contains condition, which describes
// the expected status.
func (f *Fleet) UntilRollout(
	ctx context.Context, name, condition string, isMet func(v1alpha1.RolloutStatus) bool,
) error {
	return Until(ctx, LongTimeout, fmt.Sprintf("rollout %s: %s", name, condition), func() (bool, string) {
		rollout, err := f.Rollout(ctx, name)
		if err != nil {
			return false, err.Error()
		}
		return isMet(rollout.Status), describe(rollout.Status)
	})
}
