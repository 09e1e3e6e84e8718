package guard

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// Owner identifies the module that owns objects.
type Owner struct {
	Mark      string // namespace/name of the Manifest, the value of the annotation owned-by
	Module    string
	Inherits  []string // lifecycle-manager's marks on the module's objects, nil if unknown
	Namespace string   // namespace of all Manifests in this runtime
}

// Made reports whether an object has the Manifest's mark, the annotation owned-by.
func (by Owner) Made(o *metav1.PartialObjectMetadata) bool {
	return o.Annotations[v1beta2.AnnotationOwnedBy] == by.Mark
}

// Owns reports whether the Manifest may write and delete an object. The object must have the Manifest's mark or name
// the Manifest in the annotation adopt. Objects that lifecycle-manager installed for the module, and objects that
// remained when the module became unmanaged, also belong to the Manifest.
func (by Owner) Owns(o *metav1.PartialObjectMetadata) bool {
	mark, module := o.Annotations[v1beta2.AnnotationOwnedBy], o.Labels[v1beta2.LabelModuleName]
	if by.Made(o) || o.Annotations[v1beta2.AnnotationAdopt] == by.Mark {
		return true
	}
	return takeover.Installed(o, by.Namespace, by.Inherits) || mark == "" && module == by.Module
}

// OwnsDefaultCR reports whether the Manifest may write and delete a default CR. In addition to Owns, it accepts a CR
// without any mark that lifecycle-manager created, because lifecycle-manager does not mark default CRs.
func (by Owner) OwnsDefaultCR(o *metav1.PartialObjectMetadata) bool {
	bare := o.Annotations[v1beta2.AnnotationOwnedBy]+o.Annotations[v1beta2.AnnotationOwnedByDeprecated]+
		o.Labels[v1beta2.LabelModuleName] == ""
	return !by.IsOtherManifests(o) && (by.Owns(o) || bare && takeover.MadeDefaultCR(o))
}

// MayDelete returns a function that reports whether an object in a Manifest's inventory is deleted with the Manifest.
// The object must have the Manifest's mark. If the Manifest inherited objects, lifecycle-manager's mark for the module
// is also accepted. Any writer of an object can set a mark, so an object outside the inventory is never deleted.
func (by Owner) MayDelete(inherited bool) func(*metav1.PartialObjectMetadata) bool {
	if !inherited {
		return by.Made
	}
	return func(o *metav1.PartialObjectMetadata) bool {
		return by.Made(o) || takeover.Installed(o, by.Namespace, by.Inherits)
	}
}

// Applied reports whether a field manager applied an object that has no mark. A client can remove the mark, but
// managedFields still contains the field manager.
func Applied(o *metav1.PartialObjectMetadata, manager string) bool {
	return o.Annotations[v1beta2.AnnotationOwnedBy] == "" &&
		slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
		})
}

// IsOtherManifests reports whether an object has the mark of another Manifest in this runtime.
func (by Owner) IsOtherManifests(o *metav1.PartialObjectMetadata) bool {
	mark := o.Annotations[v1beta2.AnnotationOwnedBy]
	return !by.Made(o) && strings.HasPrefix(mark, by.Namespace+"/")
}

// Whose returns the mark of an object in parentheses for messages, empty for an object without a mark.
func Whose(o *metav1.PartialObjectMetadata) string {
	if mark := cmp.Or(o.Annotations[v1beta2.AnnotationOwnedBy],
		o.Annotations[v1beta2.AnnotationOwnedByDeprecated]); mark != "" {
		return " (of " + mark + ")"
	}
	return ""
}
