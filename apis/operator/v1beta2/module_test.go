package v1beta2

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestModuleNameComesFromLabelAndMatchingAnnotation(t *testing.T) {
	for name, c := range map[string]struct{ label, annotation, module, asLabel string }{
		"label only":              {label: "keda", module: "keda", asLabel: "keda"},
		"no label and annotation": {module: "manifest", asLabel: "manifest"},
		"annotation with a namespace": {
			label: "team-keda", annotation: "team/keda", module: "team/keda", asLabel: "team-keda",
		},
		"annotation that does not match the label": {
			label: "keda", annotation: "trusted", module: "keda", asLabel: "keda",
		},
	} {
		m := &Manifest{
			ObjectMeta: metav1.ObjectMeta{
				Name: "manifest", Labels: map[string]string{}, Annotations: map[string]string{},
			},
		}
		if c.label != "" {
			m.Labels[LabelModuleName] = c.label
		}
		if c.annotation != "" {
			m.Annotations[AnnotationModule] = c.annotation
		}
		if m.Module() != c.module || m.ModuleLabel() != c.asLabel {
			t.Errorf("%s: got module %q and label %q, want %q and %q", name, m.Module(), m.ModuleLabel(), c.module,
				c.asLabel)
		}
	}
}
