package bundle

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// ValueRefs returns the value references in the module's AnnotationUsesValues, sorted, or nil if the annotation is
// invalid.
func (m Manifest) ValueRefs() []ValueRef {
	refs, err := ParseUsedValues(m.Annotations[v1beta2.AnnotationUsesValues])
	if err != nil {
		return nil
	}
	return refs
}

// UsedValues returns the names of the values that the module uses, sorted, or nil if the annotation is invalid.
func (m Manifest) UsedValues() []string {
	var names []string
	for _, ref := range m.ValueRefs() {
		names = append(names, ref.Name())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// UsedValues returns the value names that the state's modules use, sorted.
func (s DesiredState) UsedValues() []string {
	var names []string
	for _, manifests := range [][]Manifest{s.Manifests, s.Offers, s.Leaving} {
		for _, m := range manifests {
			names = append(names, m.UsedValues()...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// For returns the values that the module uses.
func (v Values) For(m Manifest) ModuleValues {
	var used ModuleValues
	for _, ref := range m.ValueRefs() {
		if used == nil {
			used = ModuleValues{}
		}
		used[string(ref)] = nil
		if value, defined := v[ref.Name()]; defined {
			used[string(ref)] = &value
		}
	}
	return used
}
