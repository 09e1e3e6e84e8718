package v1beta2

import (
	"fmt"
	"strings"
)

// Module returns the name of a Manifest's module as it was requested: NAME, or NAMESPACE/NAME for a requested
// ModuleTemplate.
//
// A label cannot contain a slash, so the label has a dash instead and the annotation has the original name. An
// annotation that does not match the label is ignored, because rights are granted by this name.
func (m *Manifest) Module() string {
	name := m.ModuleLabel()
	if module := m.Annotations[AnnotationModule]; strings.ReplaceAll(module, "/", "-") == name {
		return module
	}
	return name
}

// ModuleLabel returns the module's name in a form that labels, Helm releases and field managers can contain.
func (m *Manifest) ModuleLabel() string {
	if label := m.Labels[LabelModuleName]; label != "" {
		return label
	}
	return m.Name
}

// IsRemoved reports whether the bundle requests the deletion of the Manifest: it removes the module, or stops managing
// it.
func (m *Manifest) IsRemoved() bool {
	return m.Annotations[AnnotationRemoval] == True || m.Annotations[AnnotationUnmanaged] == True
}

// CountReady returns KymaStatus.ReadyModules: how many managed modules are Ready, and their total.
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
