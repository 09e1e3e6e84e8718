// Package v1beta1 holds the Kubernetes types as Kyma had them before v1beta2, for objects that were written then.
//
// They are served and converted, never stored. What v1beta2 has no field for is carried in annotations, so that a round
// trip loses nothing; what cannot be meant here is refused (see Convert).
//
// +kubebuilder:object:generate=true
// +groupName=operator.kyma-project.io
package v1beta1
