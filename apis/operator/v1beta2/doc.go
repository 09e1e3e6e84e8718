// Package v1beta2 contains the Kubernetes types that Kyma users write and read: Kyma, ModuleTemplate,
// ModuleReleaseMeta, Manifest and Watcher of group operator.kyma-project.io.
//
// They are compatible with the CRDs of lifecycle-manager: same names, defaults and validation, and every object that
// those accept is accepted here. Additions are optional fields only; Kyma.status.runtime is the largest.
//
// +kubebuilder:object:generate=true
// +groupName=operator.kyma-project.io
package v1beta2
