package takeover

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// HasCreatedDefaultCR reports whether lifecycle-manager created a default CR, according to the CR's label or field
// manager.
func HasCreatedDefaultCR(o *metav1.PartialObjectMetadata) bool {
	return isManagedByKyma(o) || isCreatedByKyma(o)
}

// isCreatedByKyma reports whether managedFields show that lifecycle-manager created a default CR.
//
// Source: lifecycle-manager c5b83f1b, internal/manifest/modulecr.
func isCreatedByKyma(o *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1beta2.LifecycleManagerFinalizerResource &&
			e.Operation == metav1.ManagedFieldsOperationUpdate &&
			e.Subresource == ""
	})
}

// KymasAnnotation returns the value of the annotation v1beta2.AnnotationKymas for a runtime. The value contains the
// names of the runtime's current and former Kymas in the control plane. It is empty for bundles from publishers before
// 0.1.0.
func KymasAnnotation(p bundle.Predicate) string {
	var names []string
	for _, kyma := range append([]trust.Kyma{p.Owner()}, p.FormerKymas...) {
		if kyma.Name != "" {
			names = append(names, cmp.Or(kyma.Namespace, trust.DefaultKymaNamespace)+"/"+kyma.Name)
		}
	}
	return strings.Join(names, ",")
}

// maxManifestName is the length to which lifecycle-manager truncates Manifest names.
//
// Source: lifecycle-manager c5b83f1b, pkg/module/common.
const maxManifestName = 62

// OwnerAnnotations returns the values for the owner annotations that lifecycle-manager sets on a module's objects. A
// value is the module's Manifest in the control plane, as NAMESPACE/NAME. kymas is the value of the annotation
// v1beta2.AnnotationKymas. The result is empty for a module without a component. A Manifest's name ends with a hash of
// the component and the module. A truncated name can lose the hash, so two components can have the same value. Source:
// lifecycle-manager c5b83f1b, CreateModuleName in pkg/module/common.
func OwnerAnnotations(kymas, component string, modules ...string) []string {
	if component == "" || kymas == "" {
		return nil
	}
	last := component[strings.LastIndexByte(component, '/')+1:]
	var marks []string
	for kyma := range strings.SplitSeq(kymas, ",") {
		namespace, name, _ := strings.Cut(kyma, "/")
		for _, module := range modules {
			sum := fnv.New32()
			_, _ = sum.Write([]byte(component + module))
			manifest := fmt.Sprintf("%s-%s-%d", name, last, sum.Sum32())
			marks = append(marks, namespace+"/"+manifest[:min(len(manifest), maxManifestName)])
		}
	}
	return marks
}

// HasInstalled reports whether lifecycle-manager installed an object for a module. owners is the result of
// OwnerAnnotations for this module. HasInstalled returns false if a Manifest in this runtime owns the object.
func HasInstalled(o *metav1.PartialObjectMetadata, namespace string, owners []string) bool {
	if !isManagedByKyma(o) || strings.HasPrefix(o.Annotations[v1beta2.AnnotationOwnedBy], namespace+"/") {
		return false
	}
	return slices.ContainsFunc(
		[]string{o.Annotations[v1beta2.AnnotationOwnedByDeprecated], o.Annotations[v1beta2.AnnotationOwnedBy]},
		func(mark string) bool {
			// Newer lifecycle-manager versions remove dashes from the end of a truncated name.
			return mark != "" && slices.ContainsFunc(owners, func(own string) bool {
				return mark == own || mark == strings.TrimRight(own, "-")
			})
		},
	)
}

// isManagedByKyma reports whether an object has the label managed-by with a value that a current or earlier version of
// lifecycle-manager sets.
func isManagedByKyma(o *metav1.PartialObjectMetadata) bool {
	return slices.Contains([]string{v1beta2.ManagedByKyma, "declarative-v2"}, o.Labels[v1beta2.LabelManagedBy])
}
