// Package v1beta1 contains the Kubernetes types that preceded v1beta2, for objects that were written in that version.
//
// They are served and converted, never stored. Annotations carry v1beta2 fields that v1beta1 lacks, so a round trip
// loses nothing. The conversion refuses values without a meaning in v1beta2 (see KymaToHub).
//
// +kubebuilder:object:generate=true
// +groupName=operator.kyma-project.io
package v1beta1
