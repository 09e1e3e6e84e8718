package controlplane

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/course"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/follow"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/access"
)

// ReadInput reads the objects that determine the health of the fleet.
func ReadInput(ctx context.Context, api client.Reader, of KymaSelector, d DividedRuntimes) (fleet.Input, error) {
	var in fleet.Input
	var err error
	if in.Kymas, in.Healthy, err = ReadDivided(ctx, api, of, d); err != nil {
		return in, err
	}
	var rollouts v1alpha1.RolloutList
	var metas v1beta2.ModuleReleaseMetaList
	for _, list := range []client.ObjectList{&rollouts, &metas} {
		if err := api.List(ctx, list, client.InNamespace(of.Namespace)); err != nil {
			return in, fmt.Errorf("read the control plane: %w", err)
		}
	}
	in.Rollouts, in.Metas = rollouts.Items, metas.Items
	if of.Namespace != "" {
		err = ReadCircumstances(ctx, api, of.Namespace, &in)
	}
	return in, err
}

// ReadCircumstances sets the fields of input that describe the control plane as a whole, such as the expiry of the root
// of trust. It uses the ModuleReleaseMetas that input already contains, if any. If a read fails, input stays unchanged.
func ReadCircumstances(ctx context.Context, api client.Reader, namespace string, input *fleet.Input) error {
	held, err := follow.WhyHeld(ctx, api, namespace)
	if err != nil {
		return err
	}
	expires, err := rootExpires(ctx, api, namespace)
	if err != nil {
		return err
	}
	trains, err := access.TrainsBy(ctx, api, namespace)
	if err != nil {
		return err
	}
	invalid, unmatched, err := checkPolicies(ctx, api, namespace, input.Metas)
	if err != nil {
		return err
	}
	input.Held, input.RootExpires, input.Trains = held, expires, trains
	input.InvalidPolicies, input.UnmatchedPolicies = invalid, unmatched
	return nil
}

const maxPolicies = 500

// checkPolicies returns the RolloutPolicies with mistakes that the API server cannot detect, such as an expression that
// does not compile. It also returns the policies that apply to no module. It ignores objects that the user is not
// permitted to read.
func checkPolicies(
	ctx context.Context, api client.Reader, namespace string, metas []v1beta2.ModuleReleaseMeta,
) (invalid []fleet.InvalidPolicy, unmatched []fleet.UnmatchedPolicy, err error) {
	var policies v1alpha1.RolloutPolicyList
	err = api.List(ctx, &policies, client.InNamespace(namespace), client.Limit(maxPolicies))
	if access.IsUnreadable(err) || err == nil && len(policies.Items) == 0 {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list RolloutPolicies: %w", err)
	}
	for i := range policies.Items {
		p := &policies.Items[i]
		if err := course.Validate(p.Spec.Course); err != nil {
			invalid = append(invalid, fleet.InvalidPolicy{Namespace: p.Namespace, Name: p.Name, Problem: err.Error()})
		}
	}
	unmatched, err = unmatchedPolicies(ctx, api, namespace, policies.Items, metas)
	return invalid, unmatched, err
}

func unmatchedPolicies(
	ctx context.Context, api client.Reader, namespace string, policies []v1alpha1.RolloutPolicy,
	metas []v1beta2.ModuleReleaseMeta,
) (unmatched []fleet.UnmatchedPolicy, err error) {
	if len(metas) == 0 {
		var list v1beta2.ModuleReleaseMetaList
		err := api.List(ctx, &list, client.InNamespace(namespace))
		if access.IsUnreadable(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list ModuleReleaseMetas: %w", err)
		}
		metas = list.Items
	}
	isModule := func(name string) bool {
		return slices.ContainsFunc(metas, func(m v1beta2.ModuleReleaseMeta) bool { return m.Spec.ModuleName == name })
	}
	for i := range policies {
		if p := &policies[i]; len(p.Spec.Modules) > 0 && !slices.ContainsFunc(p.Spec.Modules, isModule) {
			unmatched = append(unmatched,
				fleet.UnmatchedPolicy{Namespace: p.Namespace, Name: p.Name, Modules: p.Spec.Modules})
		}
	}
	return unmatched, nil
}

// ReadRollouts reads the Rollouts that can hold back versions.
func ReadRollouts(ctx context.Context, api client.Reader, namespace string) (fleet.Rollouts, error) {
	var rollouts v1alpha1.RolloutList
	err := api.List(ctx, &rollouts, client.InNamespace(namespace))
	if err != nil && !meta.IsNoMatchError(err) {
		return fleet.Rollouts{}, fmt.Errorf("list Rollouts that can hold back versions: %w", err)
	}
	return fleet.NewRollouts(rollouts.Items), nil
}
