package bundle

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// UsedValues returns the names of the values that the module uses, sorted, or nil if the list is invalid.
func (m Manifest) UsedValues() []string {
	names, err := ParseUsedValues(m.Annotations[v1beta2.AnnotationUsesValues])
	if err != nil {
		return nil
	}
	return names
}

// UsedValues returns the names of the values that the state's modules use, sorted.
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
	for _, name := range m.UsedValues() {
		if used == nil {
			used = ModuleValues{}
		}
		used[name] = nil
		if value, defined := v[name]; defined {
			used[name] = &value
		}
	}
	return used
}
