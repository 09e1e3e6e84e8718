// Package v1alpha1 contains the Kubernetes types of group fleet.kyma-project.io. A RolloutPolicy defines the waves in
// which a channel's promotions reach the fleet. A Rollout is one promotion in progress. A PromotionPolicy promotes
// versions from channel to channel.
//
// Objects of these types exist only in the control plane. Their size depends on the number of modules, not on the
// number of runtimes, because every list of runtimes has a maximum length.
//
// +kubebuilder:object:generate=true
// +groupName=fleet.kyma-project.io
package v1alpha1
