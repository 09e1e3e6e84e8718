// Package v1beta2 contains the Kubernetes types that Kyma users write and read: Kyma, ModuleTemplate,
// ModuleReleaseMeta, Manifest and Watcher of group operator.kyma-project.io.
//
// The types are compatible with lifecycle-manager's CRDs. They have the same names, defaults and validation, and accept
// every object that lifecycle-manager's CRDs accept. All additions are optional fields. The largest addition is
// Kyma.status.runtime.
//
// +kubebuilder:object:generate=true
// +groupName=operator.kyma-project.io
package v1beta2
