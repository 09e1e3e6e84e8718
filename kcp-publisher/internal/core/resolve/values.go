package resolve

import (
	"maps"
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// AllValues returns the runtime's named values: those in the Kyma's annotation, and the Kyma's labels.
func (r Request) AllValues() bundle.Values {
	all := make(bundle.Values, len(r.Values)+len(r.Labels))
	maps.Copy(all, r.Values)
	for key, value := range r.Labels {
		all[bundle.LabelValuePrefix+key] = value
	}
	return all
}

// undefinedValues returns the names of the runtime values that a manifest uses but the runtime does not define.
func (r Request) undefinedValues(m *bundle.Manifest) []string {
	if m == nil {
		return nil
	}
	return slices.DeleteFunc(m.UsedValues(), func(name string) bool { return slices.Contains(r.DefinedValues, name) })
}

// checkValues returns an error if the ModuleTemplate's list of runtime values is invalid, or if agents would refuse one
// of its placeholders.
func (w *requestedModule) checkValues() error {
	template := w.choice.Template
	text := template.Annotations[v1beta2.AnnotationUsesValues]
	if text == "" {
		return nil
	}
	names, err := bundle.ParseUsedValues(text)
	if err != nil {
		return reason.Errorf(reason.CatalogInvalid, "ModuleTemplate %s: annotation %s: %w", template.Name,
			v1beta2.AnnotationUsesValues, err)
	}
	if template.Spec.Data == nil {
		return nil
	}
	some := bundle.ModuleValues{}
	for _, name := range names {
		some[name] = new(string)
	}
	if err := some.SubstituteObject(template.Spec.Data.DeepCopy().Object); err != nil {
		return reason.Errorf(reason.CatalogInvalid, "ModuleTemplate %s spec.data.%w", template.Name, err)
	}
	return nil
}
