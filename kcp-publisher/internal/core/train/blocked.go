package train

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// operatorReasons lists the reasons that only an operator can resolve. The alert KymaPullTrainBlocked must have the
// same list.
var operatorReasons = []v1alpha1.WaitReason{
	v1alpha1.WaitChannelMissing, v1alpha1.WaitTemplateMissing, v1alpha1.WaitOtherPolicy, v1alpha1.WaitTooManyFailures,
	v1alpha1.WaitCheckFailed,
}

// BlockedVersions returns the versions in a policy that cannot be promoted until an operator resolves a problem.
func BlockedVersions(p *v1alpha1.PromotionPolicy) []Position {
	return slices.DeleteFunc(NewView(p).Versions, func(at Position) bool {
		return !slices.Contains(operatorReasons, at.Reason)
	})
}

// NewlyBlocked compares two states of a policy. It returns the versions that are blocked in the state after but not in
// the state before.
func NewlyBlocked(before, after *v1alpha1.PromotionPolicy) []Position {
	was := BlockedVersions(before)
	return slices.DeleteFunc(BlockedVersions(after), func(at Position) bool {
		return slices.ContainsFunc(was, func(w Position) bool {
			return w.Module == at.Module && w.Version == at.Version && w.Channel == at.Channel && w.Reason == at.Reason
		})
	})
}
