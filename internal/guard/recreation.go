package guard

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// ContainsData reports whether deleting an object can lose data that the module's content cannot restore.
func ContainsData(o *unstructured.Unstructured) bool {
	k := KeyOf(o)
	switch k.Kind {
	case "PersistentVolumeClaim", "PersistentVolume", "Namespace", "Secret":
		return k.Group == ""
	case "StatefulSet":
		return k.Group == "apps"
	}
	return IsCRD(o.GroupVersionKind().GroupKind()) || IsCustomGroup(k.Group)
}

// CanRecreate reports whether the agent can delete an object and create it again. The object's annotation
// v1beta2.AnnotationRecreate decides this. If the object does not have the annotation, the parameter version applies,
// which is the annotation's value on the module version. An object with data requires its own annotation.
func CanRecreate(o *unstructured.Unstructured, version string) bool {
	own := o.GetAnnotations()[v1beta2.AnnotationRecreate]
	if ContainsData(o) {
		return own == v1beta2.RecreateWithData
	}
	return own == v1beta2.True || own == v1beta2.RecreateWithData || own == "" && version == v1beta2.True
}
