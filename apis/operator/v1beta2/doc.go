// Package v1beta2 holds the Kubernetes types that Kyma users write and read: Kyma, ModuleTemplate, ModuleReleaseMeta,
// Manifest and Watcher of group operator.kyma-project.io.
//
// They are wire-compatible with the CRDs that lifecycle-manager ships: whatever those accept, these accept, with the
// same names, defaults and validation. Additions are optional fields only; Kyma.status.runtime is the largest.
//
// +kubebuilder:object:generate=true
// +groupName=operator.kyma-project.io
package v1beta2
