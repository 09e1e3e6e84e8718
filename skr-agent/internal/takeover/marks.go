package takeover

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// MadeDefaultCR reports whether lifecycle-manager made a default CR that has no mark of a module. Its early versions
// label it.
func MadeDefaultCR(o *metav1.PartialObjectMetadata) bool { return isKymas(o) || createdByKyma(o) }

// createdByKyma reports whether lifecycle-manager created a default CR. Its field manager is the only trace of that.
// The API server records Update for a create.
//
// Source: lifecycle-manager c5b83f1b, internal/manifest/modulecr.
func createdByKyma(o *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1beta2.LifecycleManagerFinalizerResource &&
			e.Operation == metav1.ManagedFieldsOperationUpdate &&
			e.Subresource == ""
	})
}

// Installed reports whether lifecycle-manager installed an object for a module, whose name or component's name it
// knows. Its mark is the name of a Manifest in the control plane, KYMA-COMPONENT-HASH. An object that a Manifest of
// this runtime has marked since then belongs to that Manifest.
func Installed(o *metav1.PartialObjectMetadata, namespace, module, component string) bool {
	if !isKymas(o) || strings.HasPrefix(o.Annotations[v1beta2.AnnotationOwnedBy], namespace+"/") {
		return false
	}
	return slices.ContainsFunc(
		[]string{v1beta2.AnnotationOwnedByDeprecated, v1beta2.AnnotationOwnedBy},
		func(annotation string) bool {
			_, manifest, _ := strings.Cut(o.Annotations[annotation], "/")
			return slices.ContainsFunc([]string{module, component}, func(name string) bool {
				return name != "" && strings.Contains("-"+manifest+"-", "-"+name+"-")
			})
		},
	)
}

// isKymas reports whether an object has a label of lifecycle-manager, in its present or its former form.
func isKymas(o *metav1.PartialObjectMetadata) bool {
	return slices.Contains([]string{v1beta2.ManagedByKyma, "declarative-v2"}, o.Labels[v1beta2.LabelManagedBy])
}
