package object

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// Owner is a module's Manifest, as the owner of objects.
type Owner struct {
	OwnedBy         string // namespace/name of the Manifest, as in the annotation owned-by
	Module          string
	InheritedOwners []string // owner annotations that lifecycle-manager sets for this module
	Namespace       string   // the namespace that contains all Manifests
}

// IsAnnotatedOwner reports whether an object has the annotation owned-by with this Manifest.
func (by Owner) IsAnnotatedOwner(o *metav1.PartialObjectMetadata) bool {
	return o.Annotations[v1beta2.AnnotationOwnedBy] == by.OwnedBy
}

// Marks returns the labels and annotations that identify an object's owner.
func (by Owner) Marks() (labels, annotations map[string]string) {
	return map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma, v1beta2.LabelModuleName: by.Module},
		map[string]string{v1beta2.AnnotationOwnedBy: by.OwnedBy}
}

// Owns reports whether the Manifest can write and delete an object. It can if the annotation owned-by or adopt names
// the Manifest, if lifecycle-manager installed the object for the module, or if the object has the module's label but
// no annotation owned-by.
func (by Owner) Owns(o *metav1.PartialObjectMetadata) bool {
	mark, module := o.Annotations[v1beta2.AnnotationOwnedBy], o.Labels[v1beta2.LabelModuleName]
	if by.IsAnnotatedOwner(o) || o.Annotations[v1beta2.AnnotationAdopt] == by.OwnedBy {
		return true
	}
	return takeover.HasInstalled(o, by.Namespace, by.InheritedOwners) || mark == "" && module == by.Module
}

// OwnsDefaultCR reports whether the Manifest can write and delete a default CR. Unlike Owns, it also accepts a CR that
// lifecycle-manager created without an annotation.
func (by Owner) OwnsDefaultCR(o *metav1.PartialObjectMetadata) bool {
	bare := o.Annotations[v1beta2.AnnotationOwnedBy]+o.Annotations[v1beta2.AnnotationOwnedByDeprecated]+
		o.Labels[v1beta2.LabelModuleName] == ""
	return !by.BelongsToOther(o) && (by.Owns(o) || bare && takeover.HasCreatedDefaultCR(o))
}

// DeletionFilter returns a function that reports whether an object in a Manifest's inventory can be deleted with the
// Manifest. If inherited is true, the function also accepts objects that lifecycle-manager installed for the module.
func (by Owner) DeletionFilter(inherited bool) func(*metav1.PartialObjectMetadata) bool {
	if !inherited {
		return by.IsAnnotatedOwner
	}
	return func(o *metav1.PartialObjectMetadata) bool {
		return by.IsAnnotatedOwner(o) || takeover.HasInstalled(o, by.Namespace, by.InheritedOwners)
	}
}

// WasAppliedBy reports whether a field manager applied an object that has no annotation owned-by. A client can remove
// the annotation, but the entry in managedFields remains.
func WasAppliedBy(o *metav1.PartialObjectMetadata, manager string) bool {
	return o.Annotations[v1beta2.AnnotationOwnedBy] == "" &&
		slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
		})
}

// BelongsToOther reports whether an object belongs to another Manifest in this runtime.
func (by Owner) BelongsToOther(o *metav1.PartialObjectMetadata) bool {
	mark := o.Annotations[v1beta2.AnnotationOwnedBy]
	return !by.IsAnnotatedOwner(o) && strings.HasPrefix(mark, by.Namespace+"/")
}

// DescribeOwner returns text for messages: an object's owner in parentheses, or "" for an object without an owner.
func DescribeOwner(o *metav1.PartialObjectMetadata) string {
	if mark := cmp.Or(o.Annotations[v1beta2.AnnotationOwnedBy],
		o.Annotations[v1beta2.AnnotationOwnedByDeprecated]); mark != "" {
		return " (of " + mark + ")"
	}
	return ""
}
