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
	Mark      string // the Manifest as namespace/name, as in the annotation owned-by
	Module    string
	Inherits  []string // lifecycle-manager's annotation values for this module; nil if unknown
	Namespace string   // namespace of all Manifests
}

// Made reports whether an object has the annotation owned-by with this Manifest.
func (by Owner) Made(o *metav1.PartialObjectMetadata) bool {
	return o.Annotations[v1beta2.AnnotationOwnedBy] == by.Mark
}

// Owns reports whether the Manifest can write and delete an object: the object's annotation owned-by or adopt names
// the Manifest, or lifecycle-manager installed the object for the module.
func (by Owner) Owns(o *metav1.PartialObjectMetadata) bool {
	mark, module := o.Annotations[v1beta2.AnnotationOwnedBy], o.Labels[v1beta2.LabelModuleName]
	if by.Made(o) || o.Annotations[v1beta2.AnnotationAdopt] == by.Mark {
		return true
	}
	return takeover.Installed(o, by.Namespace, by.Inherits) || mark == "" && module == by.Module
}

// OwnsDefaultCR reports whether the Manifest can write and delete a default CR. Unlike Owns, it accepts a CR of
// lifecycle-manager without an annotation.
func (by Owner) OwnsDefaultCR(o *metav1.PartialObjectMetadata) bool {
	bare := o.Annotations[v1beta2.AnnotationOwnedBy]+o.Annotations[v1beta2.AnnotationOwnedByDeprecated]+
		o.Labels[v1beta2.LabelModuleName] == ""
	return !by.IsOtherManifests(o) && (by.Owns(o) || bare && takeover.MadeDefaultCR(o))
}

// MayDelete returns a function that reports whether an object in a Manifest's inventory can be deleted with the
// Manifest. If inherited is true, the function also accepts objects that lifecycle-manager installed for the module.
func (by Owner) MayDelete(inherited bool) func(*metav1.PartialObjectMetadata) bool {
	if !inherited {
		return by.Made
	}
	return func(o *metav1.PartialObjectMetadata) bool {
		return by.Made(o) || takeover.Installed(o, by.Namespace, by.Inherits)
	}
}

// Applied reports whether managedFields show that a field manager applied an object. A client can remove the
// annotation owned-by, but not this entry.
func Applied(o *metav1.PartialObjectMetadata, manager string) bool {
	return o.Annotations[v1beta2.AnnotationOwnedBy] == "" &&
		slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
		})
}

// IsOtherManifests reports whether an object belongs to another Manifest of this runtime.
func (by Owner) IsOtherManifests(o *metav1.PartialObjectMetadata) bool {
	mark := o.Annotations[v1beta2.AnnotationOwnedBy]
	return !by.Made(o) && strings.HasPrefix(mark, by.Namespace+"/")
}

// Whose returns the owner of an object in parentheses for messages, or "" for an object without an owner.
func Whose(o *metav1.PartialObjectMetadata) string {
	if mark := cmp.Or(o.Annotations[v1beta2.AnnotationOwnedBy],
		o.Annotations[v1beta2.AnnotationOwnedByDeprecated]); mark != "" {
		return " (of " + mark + ")"
	}
	return ""
}
