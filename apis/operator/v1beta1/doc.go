// Package v1beta1 contains the Kubernetes types of the deprecated version v1beta1, for clients that still use it.
//
// The API server stores objects only as v1beta2 and converts them. Annotations contain the fields that exist only in
// the other version, so a round trip preserves all fields. The conversion refuses values that v1beta2 does not support
// (see KymaToHub).
//
// +kubebuilder:object:generate=true
// +groupName=operator.kyma-project.io
package v1beta1
