// Package v1alpha1 contains the Kubernetes types of group fleet.kyma-project.io. A RolloutPolicy defines the waves in
// which a channel's promotions reach the fleet. A Rollout is one promotion in progress. A PromotionPolicy promotes
// versions from channel to channel.
//
// They exist in the control plane only. They grow with the number of modules, not of runtimes: every list of runtimes
// is bounded.
//
// +kubebuilder:object:generate=true
// +groupName=fleet.kyma-project.io
package v1alpha1
