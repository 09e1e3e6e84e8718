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

func TestObjectsWithDataAreRecreatedOnlyByName(t *testing.T) {
	for name, c := range map[string]struct {
		object  *unstructured.Unstructured
		version string
		want    bool
	}{
		"no request":                          {ofKind("apps/v1", "Deployment", ""), "", false},
		"the object requests it":              {ofKind("apps/v1", "Deployment", "true"), "", true},
		"its version requests it":             {ofKind("apps/v1", "Deployment", ""), "true", true},
		"the object does not want it":         {ofKind("apps/v1", "Deployment", "false"), "true", false},
		"a Job of such a version":             {ofKind("batch/v1", "Job", ""), "true", true},
		"a claim of such a version":           {ofKind("v1", "PersistentVolumeClaim", ""), "true", false},
		"a claim that does not name its data": {ofKind("v1", "PersistentVolumeClaim", "true"), "true", false},
		"a claim that names its data":         {ofKind("v1", "PersistentVolumeClaim", "with-data"), "", true},
		"a volume":                            {ofKind("v1", "PersistentVolume", "true"), "true", false},
		"a namespace":                         {ofKind("v1", "Namespace", "true"), "true", false},
		"a Secret":                            {ofKind("v1", "Secret", "true"), "true", false},
		"a Secret that names its data":        {ofKind("v1", "Secret", "with-data"), "", true},
		"a StatefulSet":                       {ofKind("apps/v1", "StatefulSet", "true"), "true", false},
		"a definition": {
			ofKind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "true"), "true", false,
		},
		"a custom resource":                     {ofKind("db.example.org/v1", "Database", "true"), "true", false},
		"a custom resource that names its data": {ofKind("db.example.org/v1", "Database", "with-data"), "", true},
	} {
		if got := MayRecreate(c.object, c.version); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
