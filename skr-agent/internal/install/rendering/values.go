package rendering

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

// valuesOf returns the runtime's values that a module uses. The finding reports an undefined value.
func valuesOf(m *v1beta2.Manifest) (bundle.ModuleValues, *outcome.Finding) {
	values, err := bundle.ParseModuleValues(m.Annotations[v1beta2.AnnotationValues])
	if err != nil {
		return nil, &outcome.Finding{Reason: v1beta2.ReasonSourceBroken, Message: fmt.Sprintf("annotation %s: %v",
			v1beta2.AnnotationValues, err)}
	}
	if err := bundle.UndefinedValues(m.Module(), values.UndefinedNames()); err != nil {
		return nil, &outcome.Finding{Reason: v1beta2.ReasonValueUndefined, Message: err.Error()}
	}
	return values, nil
}

// defaultCRWith returns the default CR with the runtime's values, or nil if the Manifest has no default CR.
func defaultCRWith(m *v1beta2.Manifest, values bundle.ModuleValues) (*unstructured.Unstructured, *outcome.Finding) {
	if m.Spec.Resource == nil || len(values) == 0 {
		return m.Spec.Resource, nil
	}
	cr := m.Spec.Resource.DeepCopy()
	if err := values.SubstituteObject(cr.Object); err != nil {
		return nil, &outcome.Finding{Reason: v1beta2.ReasonContentBroken, Message: "spec.resource: " + err.Error()}
	}
	return cr, nil
}
