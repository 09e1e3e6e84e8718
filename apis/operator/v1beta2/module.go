package v1beta2

import (
	"fmt"
	"strings"
)

// Module returns the name of a Manifest's module as it was asked for: NAME, or NAMESPACE/NAME where a ModuleTemplate is
// asked for.
//
// The label holds it with a dash for the slash, which no label takes, and the annotation as it is. An annotation that
// is not the label's module in other words counts for nothing: rights are given by this name.
func (m *Manifest) Module() string {
	name := m.ModuleLabel()
	if module := m.Annotations[AnnotationModule]; strings.ReplaceAll(module, "/", "-") == name {
		return module
	}
	return name
}

// ModuleLabel returns the module's name as labels, Helm releases and field managers take it.
func (m *Manifest) ModuleLabel() string {
	if label := m.Labels[LabelModuleName]; label != "" {
		return label
	}
	return m.Name
}

// IsRemoved reports whether the deletion of a Manifest is meant: a bundle removes its module, or leaves it in place
// without a Manifest.
func (m *Manifest) IsRemoved() bool {
	return m.Annotations[AnnotationRemoval] == True || m.Annotations[AnnotationUnmanaged] == True
}

// CountReady returns how many modules are Ready of those that are looked after, as KymaStatus.ReadyModules has it.
func CountReady(modules []ModuleStatus) string {
	ready, all := 0, 0
	for i := range modules {
		switch modules[i].State {
		case StateReady:
			ready++
			all++
		case StateUnmanaged:
		default:
			all++
		}
	}
	return fmt.Sprintf("%d/%d", ready, all)
}
