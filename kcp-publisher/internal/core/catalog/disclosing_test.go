package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestModuleWithSecretIsNotPublished(t *testing.T) {
	token := "ghp" + "_" + strings.Repeat("a1", 18)
	data := func(fields map[string]any) func(*v1beta2.ModuleTemplate) {
		return func(t *v1beta2.ModuleTemplate) {
			t.Spec.Data = &unstructured.Unstructured{
				Object: map[string]any{
					"apiVersion": "x.y/v1", "kind": "Keda", "metadata": map[string]any{"name": "d"}, "spec": fields,
				},
			}
		}
	}
	annotated := func(name, value string) func(*v1beta2.ModuleTemplate) {
		return func(t *v1beta2.ModuleTemplate) { t.Annotations = map[string]string{name: value} }
	}
	for name, c := range map[string]struct {
		change     []func(*v1beta2.ModuleTemplate)
		changeMeta func(*v1beta2.ModuleReleaseMeta)
		want       string
	}{
		"module without a secret": {},
		"secret in the default CR": {
			change: []func(*v1beta2.ModuleTemplate){data(map[string]any{"token": token})},
			want:   "ModuleTemplate kcp-system/keda-1.7.0 spec.data.spec.token appears to contain a GitHub token",
		},
		"secret in an annotation": {
			change: []func(*v1beta2.ModuleTemplate){annotated("x", token)},
			want:   "ModuleTemplate kcp-system/keda-1.7.0 metadata.annotations.x appears to contain",
		},
		"secret in kubectl's annotation, which is not published": {
			change: []func(*v1beta2.ModuleTemplate){
				annotated("kubectl.kubernetes.io/last-applied-configuration", token),
			},
		},
		"secret in a public field": {
			change: []func(*v1beta2.ModuleTemplate){
				data(map[string]any{"example": token}),
				annotated(v1beta2.AnnotationPublicFields, "spec.info, spec.data.spec.example"),
			},
		},
		"secret in a field next to a public field": {
			change: []func(*v1beta2.ModuleTemplate){
				data(map[string]any{"example": token, "token": token}),
				annotated(v1beta2.AnnotationPublicFields, "spec.data.spec.example"),
			},
			want: "spec.data.spec.token appears to contain",
		},
		"secret in the ModuleReleaseMeta": {
			changeMeta: func(m *v1beta2.ModuleReleaseMeta) { m.Labels = map[string]string{"a": token} },
			want:       "ModuleReleaseMeta kcp-system/keda metadata.labels.a appears to contain",
		},
	} {
		t.Run(name, func(t *testing.T) {
			keda := versioned("keda", "1.7.0")
			for _, change := range c.change {
				change(&keda)
			}
			s := snapshot(t, []v1beta2.ModuleTemplate{keda, versioned("mailer", "1.7.0")},
				offered("keda", c.changeMeta), offered("mailer", nil))
			_, err := s.Lookup("keda", "regular", nil)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, err := s.Lookup("mailer", "regular", nil); err != nil {
				t.Errorf("lookup of the module without a secret failed: %v", err)
			}
			visible, err := json.Marshal(s.VisibleCatalog(nil, nil))
			if err != nil {
				t.Fatal(err)
			}
			if c.want != "" && strings.Contains(string(visible), token) {
				t.Errorf("the visible catalog contains the secret: %s", visible)
			}
			if c.want == "" && !strings.Contains(string(visible), "keda-1.7.0") ||
				!strings.Contains(string(visible), "mailer-1.7.0") {
				t.Errorf("a published module is missing in the visible catalog: %s", visible)
			}
		})
	}
}
