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

// Kymas returns the value of the annotation v1beta2.AnnotationKymas for a runtime. It is empty for a publisher from
// before 0.1.0, which does not name Kymas.
func Kymas(p bundle.Predicate) string {
	var names []string
	for _, kyma := range append([]trust.Kyma{p.Owner()}, p.FormerKymas...) {
		if kyma.Name != "" {
			names = append(names, cmp.Or(kyma.Namespace, trust.DefaultKymaNamespace)+"/"+kyma.Name)
		}
	}
	return strings.Join(names, ",")
}

// maxManifestName is the length at which lifecycle-manager cuts the names of Manifests.
//
// Source: lifecycle-manager c5b83f1b, pkg/module/common.
const maxManifestName = 62

// Marks returns the marks that lifecycle-manager sets on the objects of a module: NAMESPACE/NAME of the module's
// Manifest in the control plane, one for each of the kymas and each name by which they can request the module. kymas is
// the value of the annotation v1beta2.AnnotationKymas. No mark exists for a module without a component.
//
// A Manifest's name contains a hash of the component and the module. A name that is cut can lose it; then
// lifecycle-manager itself has one Manifest for two components with the same beginning, and they share its mark.
//
// Source: lifecycle-manager c5b83f1b, CreateModuleName in pkg/module/common.
func Marks(kymas, component string, modules ...string) []string {
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

// Installed reports whether lifecycle-manager installed an object for a module with these marks. An object that a
// Manifest of this runtime has marked since then belongs to that Manifest.
func Installed(o *metav1.PartialObjectMetadata, namespace string, marks []string) bool {
	if !isKymas(o) || strings.HasPrefix(o.Annotations[v1beta2.AnnotationOwnedBy], namespace+"/") {
		return false
	}
	return slices.ContainsFunc(
		[]string{o.Annotations[v1beta2.AnnotationOwnedByDeprecated], o.Annotations[v1beta2.AnnotationOwnedBy]},
		func(mark string) bool {
			// Newer versions cut dashes at the end of a name that was cut.
			return mark != "" && slices.ContainsFunc(marks, func(own string) bool {
				return mark == own || mark == strings.TrimRight(own, "-")
			})
		},
	)
}

// isKymas reports whether an object has a label of lifecycle-manager, in its present or its former form.
func isKymas(o *metav1.PartialObjectMetadata) bool {
	return slices.Contains([]string{v1beta2.ManagedByKyma, "declarative-v2"}, o.Labels[v1beta2.LabelManagedBy])
}
