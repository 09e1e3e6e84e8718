package catalog

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// ProvidedBy returns the catalog for modules with the given spec.modules[].controller. It contains only ModuleTemplates
// with that value in the label controller-name, or all if the value is empty.
func (s *Snapshot) ProvidedBy(controller string) *Snapshot {
	if controller == s.controller {
		return s
	}
	narrowed := *s
	narrowed.controller = controller
	return &narrowed
}

func (s *Snapshot) provided(all []*template) []*template {
	if s.controller == "" {
		return all
	}
	var found []*template
	for _, t := range all {
		if t.Labels[v1beta2.LabelControllerName] == s.controller {
			found = append(found, t)
		}
	}
	return found
}

func (s *Snapshot) checkController(module string, all []*template) error {
	if len(all) == 0 || len(s.provided(all)) > 0 {
		return nil
	}
	return reason.Errorf(reason.CatalogInvalid,
		"module %s: ModuleTemplate %s does not have the controller name %s: set its label %s, or correct "+
			"spec.modules[].controller",
		module, key(slices.MinFunc(all, byKey)), bundle.Quote(s.controller, maxControllerBytes),
		v1beta2.LabelControllerName)
}

// A label value has at most 63 bytes.
const maxControllerBytes = 63
