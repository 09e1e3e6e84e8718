package chaos

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// mistypedStage is the value of stageLabel in a policy with a typo. No runtime has this value.
const mistypedStage = "canray"

// mistypedPolicy returns the rollout policy with a typo in the selector of the first wave.
func mistypedPolicy() *v1alpha1.RolloutPolicy {
	p := policy()
	p.Spec.Waves[0].Selector.MatchLabels[stageLabel] = mistypedStage
	return p
}

// isMistyped reports whether the first wave of a rollout or policy has the typo.
func isMistyped(course v1alpha1.Course) bool {
	return len(course.Waves) > 0 && course.Waves[0].Selector != nil &&
		course.Waves[0].Selector.MatchLabels[stageLabel] == mistypedStage
}

// mistypeWave commits a policy with a typo. Once the policy is applied, mistypeWave promotes a version, whose rollout
// then has an empty first wave.
func (s *stage) mistypeWave(ctx context.Context, version string) error {
	if err := s.repo.push(ctx, "rename the canaries", map[string]any{"policy": mistypedPolicy()}); err != nil {
		return err
	}
	applied := func() (bool, string) {
		found := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: policy().Name}}
		err := s.fleet.Control.Get(ctx, client.ObjectKeyFromObject(found), found)
		return err == nil && isMistyped(found.Spec.Course), "the RolloutPolicy has no typo yet"
	}
	if err := fleet.Until(ctx, retryTimeout, "the policy is applied", applied); err != nil {
		return err
	}
	return s.promote(ctx, version, false)
}

// correctWave corrects the policy and the rollouts that began with the typo.
func (s *stage) correctWave(ctx context.Context) error {
	if err := s.repo.push(ctx, "correct the canaries", map[string]any{"policy": policy()}); err != nil {
		return err
	}
	var rollouts v1alpha1.RolloutList
	if err := s.fleet.Control.List(ctx, &rollouts, client.InNamespace(sample.Namespace)); err != nil {
		return err
	}
	for _, r := range rollouts.Items {
		if !isMistyped(r.Spec.Course) {
			continue
		}
		before := r.DeepCopy()
		r.Spec.Waves[0].Selector = policy().Spec.Waves[0].Selector
		if err := s.fleet.Control.Patch(ctx, &r, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}
