package guard

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func ofKind(apiVersion, kind, recreate string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetName("x")
	if recreate != "" {
		o.SetAnnotations(map[string]string{v1beta2.AnnotationRecreate: recreate})
	}
	return o
}

func TestObjectsWithDataAreRecreatedOnlyWithPermission(t *testing.T) {
	for name, c := range map[string]struct {
		object  *unstructured.Unstructured
		version string
		want    bool
	}{
		"Deployment without an annotation":              {ofKind("apps/v1", "Deployment", ""), "", false},
		"annotation on the object":                      {ofKind("apps/v1", "Deployment", "true"), "", true},
		"annotation on the version":                     {ofKind("apps/v1", "Deployment", ""), "true", true},
		"annotation on the object forbids recreation":   {ofKind("apps/v1", "Deployment", "false"), "true", false},
		"Job with annotation on the version":            {ofKind("batch/v1", "Job", ""), "true", true},
		"PVC with annotation on the version":            {ofKind("v1", "PersistentVolumeClaim", ""), "true", false},
		"PVC without with-data annotation":              {ofKind("v1", "PersistentVolumeClaim", "true"), "true", false},
		"PVC with with-data annotation":                 {ofKind("v1", "PersistentVolumeClaim", "with-data"), "", true},
		"PersistentVolume without with-data annotation": {ofKind("v1", "PersistentVolume", "true"), "true", false},
		"Namespace without with-data annotation":        {ofKind("v1", "Namespace", "true"), "true", false},
		"Secret without with-data annotation":           {ofKind("v1", "Secret", "true"), "true", false},
		"Secret with with-data annotation":              {ofKind("v1", "Secret", "with-data"), "", true},
		"StatefulSet without with-data annotation":      {ofKind("apps/v1", "StatefulSet", "true"), "true", false},
		"CRD without with-data annotation": {
			ofKind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "true"), "true", false,
		},
		"custom resource without with-data annotation": {ofKind("db.example.org/v1", "Database", "true"), "true", false},
		"custom resource with with-data annotation":    {ofKind("db.example.org/v1", "Database", "with-data"), "", true},
	} {
		if got := CanRecreate(c.object, c.version); got != c.want {
			t.Errorf("%s: got CanRecreate %t, want %t", name, got, c.want)
		}
	}
}
