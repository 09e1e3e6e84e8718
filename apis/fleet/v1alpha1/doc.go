// Package v1alpha1 holds the Kubernetes types of group fleet.kyma-project.io: RolloutPolicy, which says in which waves
// a channel's promotions reach the fleet, and Rollout, which is one promotion being carried out.
//
// Both live in the control plane only. They grow with modules, never with runtimes: what names runtimes is a bounded
// list.
//
// +kubebuilder:object:generate=true
// +groupName=fleet.kyma-project.io
package v1alpha1
