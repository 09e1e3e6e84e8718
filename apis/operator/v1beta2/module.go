package v1beta2

import (
	"fmt"
	"strings"
)

// Module returns the name with which the Kyma requests the Manifest's module: NAME, or NAMESPACE/NAME for a
// ModuleTemplate.
//
// A label cannot contain a slash. LabelModuleName therefore contains a dash instead, and AnnotationModule contains the
// original name. Module ignores an annotation that does not match the label, because permissions depend on the module's
// name.
func (m *Manifest) Module() string {
	name := m.ModuleLabel()
	if module := m.Annotations[AnnotationModule]; strings.ReplaceAll(module, "/", "-") == name {
		return module
	}
	return name
}

// ModuleLabel returns the module's name in a form that is valid for labels, Helm releases and field managers.
func (m *Manifest) ModuleLabel() string {
	if label := m.Labels[LabelModuleName]; label != "" {
		return label
	}
	return m.Name
}

// CountReady returns the value for KymaStatus.ReadyModules: the number of Ready modules and the number of managed
// modules.
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
