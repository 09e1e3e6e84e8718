package guard

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// HoldsData reports whether deleting an object can lose data that is not part of the module's content.
func HoldsData(o *unstructured.Unstructured) bool {
	k := KeyOf(o)
	switch k.Kind {
	case "PersistentVolumeClaim", "PersistentVolume", "Namespace", "Secret":
		return k.Group == ""
	case "StatefulSet":
		return k.Group == "apps"
	}
	return IsCRD(o.GroupVersionKind().GroupKind()) || IsCustom(k.Group)
}

// MayRecreate reports whether an object can be deleted and created again, according to the annotation recreate.
// version is the value for the module version. It applies to objects without data and without the annotation.
func MayRecreate(o *unstructured.Unstructured, version string) bool {
	own := o.GetAnnotations()[v1beta2.AnnotationRecreate]
	if HoldsData(o) {
		return own == v1beta2.RecreateWithData
	}
	return own == v1beta2.True || own == v1beta2.RecreateWithData || own == "" && version == v1beta2.True
}
