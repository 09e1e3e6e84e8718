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
	Mark      string // the Manifest's namespace/name, as in the annotation owned-by
	Module    string
	Inherits  []string // lifecycle-manager's marks on the module's objects, nil if they are unknown
	Namespace string   // for objects without a namespace
}

// Made reports whether an object has the Manifest's mark.
func (by Owner) Made(o *metav1.PartialObjectMetadata) bool {
	return o.Annotations[v1beta2.AnnotationOwnedBy] == by.Mark
}

// Owns reports whether the Manifest may write and delete an object. It may if the object has its mark, if an
// annotation on the object hands it over to the Manifest, if lifecycle-manager installed it for the same module, or
// if it was left in place when this module became unmanaged.
func (by Owner) Owns(o *metav1.PartialObjectMetadata) bool {
	mark, module := o.Annotations[v1beta2.AnnotationOwnedBy], o.Labels[v1beta2.LabelModuleName]
	if by.Made(o) || o.Annotations[v1beta2.AnnotationAdopt] == by.Mark {
		return true
	}
	return takeover.Installed(o, by.Namespace, by.Inherits) || mark == "" && module == by.Module
}

// OwnsDefaultCR is Owns for a default CR. Lifecycle-manager creates it without a mark, and early versions with
// their label only.
func (by Owner) OwnsDefaultCR(o *metav1.PartialObjectMetadata) bool {
	bare := o.Annotations[v1beta2.AnnotationOwnedBy]+o.Annotations[v1beta2.AnnotationOwnedByDeprecated]+
		o.Labels[v1beta2.LabelModuleName] == ""
	return !by.IsOtherManifests(o) && (by.Owns(o) || bare && takeover.MadeDefaultCR(o))
}

// MayDelete returns the test for objects in a Manifest's inventory that are deleted with it: the objects that it
// made. A Manifest that inherited objects of lifecycle-manager also deletes those whose mark still names
// lifecycle-manager and its module. The mark alone, which any writer of the object can set, deletes only objects
// that are in the inventory.
func (by Owner) MayDelete(inherited bool) func(*metav1.PartialObjectMetadata) bool {
	if !inherited {
		return by.Made
	}
	return func(o *metav1.PartialObjectMetadata) bool {
		return by.Made(o) || takeover.Installed(o, by.Namespace, by.Inherits)
	}
}

// Applied reports whether a field manager applied an object that has no mark. The field manager stays when the mark
// is removed.
func Applied(o *metav1.PartialObjectMetadata, manager string) bool {
	return o.Annotations[v1beta2.AnnotationOwnedBy] == "" &&
		slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
		})
}

// IsOtherManifests reports whether another Manifest of this runtime made an object.
func (by Owner) IsOtherManifests(o *metav1.PartialObjectMetadata) bool {
	mark := o.Annotations[v1beta2.AnnotationOwnedBy]
	return !by.Made(o) && strings.HasPrefix(mark, by.Namespace+"/")
}

// Whose returns the mark of an object in parentheses, for messages; empty without a mark.
func Whose(o *metav1.PartialObjectMetadata) string {
	if mark := cmp.Or(o.Annotations[v1beta2.AnnotationOwnedBy],
		o.Annotations[v1beta2.AnnotationOwnedByDeprecated]); mark != "" {
		return " (of " + mark + ")"
	}
	return ""
}
