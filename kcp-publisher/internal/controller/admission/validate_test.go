package admission

import (
	"encoding/json"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestInvalidTemplatesCanBeDeletedAndReclaimed(t *testing.T) {
	template := func(change func(*v1beta2.ModuleTemplate)) (raw runtime.RawExtension) {
		m := &v1beta2.ModuleTemplate{}
		m.Name, m.Finalizers = "keda-1.0.0", []string{"operator.kyma-project.io/module"}
		m.Annotations = map[string]string{v1beta2.AnnotationGitCommit: "c1", v1beta2.AnnotationGitDigest: "d1"}
		m.Spec.Descriptor.Raw = []byte(`{"meta":{"schemaVersion":"v9"}}`)
		change(m)
		raw.Raw, _ = json.Marshal(m)
		return raw
	}
	stored := template(func(*v1beta2.ModuleTemplate) {})
	for name, c := range map[string]struct {
		before runtime.RawExtension
		change func(*v1beta2.ModuleTemplate)
		want   bool
	}{
		"new invalid template": {runtime.RawExtension{}, func(*v1beta2.ModuleTemplate) {}, false},
		"removed finalizer":    {stored, func(m *v1beta2.ModuleTemplate) { m.Finalizers = nil }, true},
		"changed managed fields": {stored, func(m *v1beta2.ModuleTemplate) {
			m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kcp-publisher-git"}}
			delete(m.Annotations, v1beta2.AnnotationGitDigest)
		}, true},
		"object leaves the Git repository": {stored, func(m *v1beta2.ModuleTemplate) { m.Annotations = nil }, true},
		"changed spec":                     {stored, func(m *v1beta2.ModuleTemplate) { m.Spec.Version = "1.0.0" }, false},
		"added label": {
			stored, func(m *v1beta2.ModuleTemplate) { m.Labels = map[string]string{"a": "b"} }, false,
		},
		"changed spec of a deleted object": {stored, func(m *v1beta2.ModuleTemplate) {
			m.DeletionTimestamp, m.Spec.Version = &metav1.Time{Time: time.Unix(1, 0)}, "1.0.0"
		}, true},
	} {
		response := validateTemplate(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Object: template(c.change), OldObject: c.before,
		}})
		if response.Allowed != c.want {
			t.Errorf("%s: got allowed %t, want %t", name, response.Allowed, c.want)
		}
	}
}
