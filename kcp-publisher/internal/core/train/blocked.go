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

// Blocked returns those versions of a policy that cannot be promoted until an operator resolves a problem.
func Blocked(p *v1alpha1.PromotionPolicy) []Position {
	return slices.DeleteFunc(Show(p).Versions, func(at Position) bool {
		return !slices.Contains(operatorReasons, at.Reason)
	})
}

// NewlyBlocked compares two states of a policy. It returns the versions that the status of the newer state lists as
// blocked, and that the status of the older state does not.
func NewlyBlocked(before, after *v1alpha1.PromotionPolicy) []Position {
	was := Blocked(before)
	return slices.DeleteFunc(Blocked(after), func(at Position) bool {
		return slices.ContainsFunc(was, func(w Position) bool {
			return w.Module == at.Module && w.Version == at.Version && w.Channel == at.Channel && w.Reason == at.Reason
		})
	})
}
