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

// checkValues returns an error if the runtime does not define a value that a manifest uses, or if a value does not have
// the type that the manifest needs.
func (r Request) checkValues(m *bundle.Manifest) error {
	if m == nil {
		return nil
	}
	var undefined []string
	var invalid []bundle.ValueRef
	for _, ref := range m.ValueRefs() {
		switch {
		case slices.Contains(r.InvalidValues, ref):
			invalid = append(invalid, ref)
		case !slices.Contains(r.DefinedValues, ref):
			undefined = append(undefined, ref.Name())
		}
	}
	if err := bundle.UndefinedValues(m.Module, slices.Compact(undefined)); err != nil {
		return err
	}
	return bundle.InvalidValues(m.Module, invalid, m.Spec.Resource)
}

// checkValues returns an error if the ModuleTemplate's list of runtime values is invalid, or if agents would refuse one
// of its placeholders.
func (w *requestedModule) checkValues() error {
	template := w.choice.Template
	text := template.Annotations[v1beta2.AnnotationUsesValues]
	if text == "" {
		return nil
	}
	refs, err := bundle.ParseUsedValues(text)
	if err != nil {
		return reason.Errorf(reason.CatalogInvalid, "ModuleTemplate %s: annotation %s: %w", template.Name,
			v1beta2.AnnotationUsesValues, err)
	}
	if template.Spec.Data == nil {
		return nil
	}
	if err := bundle.SampleValues(refs).SubstituteObject(template.Spec.Data.DeepCopy().Object); err != nil {
		return reason.Errorf(reason.CatalogInvalid, "ModuleTemplate %s spec.data.%w", template.Name, err)
	}
	return nil
}
