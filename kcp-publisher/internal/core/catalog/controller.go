package catalog

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// ProvidedBy returns the catalog for modules whose entry in spec.modules contains this controller. Lookups find only
// ModuleTemplates with this value in their controller-name label. If controller is empty, lookups find all
// ModuleTemplates.
func (s *Snapshot) ProvidedBy(controller string) *Snapshot {
	if controller == s.controller {
		return s
	}
	narrowed := *s
	narrowed.controller = controller
	return &narrowed
}

func (s *Snapshot) filterByController(all []*template) []*template {
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
	if len(all) == 0 || len(s.filterByController(all)) > 0 {
		return nil
	}
	return reason.Errorf(reason.CatalogInvalid,
		"module %s: ModuleTemplate %s does not have the controller name %s: set its label %s, or correct "+
			"spec.modules[].controller",
		module, objectKey(slices.MinFunc(all, byKey)), bundle.Quote(s.controller, maxControllerBytes),
		v1beta2.LabelControllerName)
}

// maxControllerBytes is the maximum length of a controller name, because a longer name cannot be a label value.
const maxControllerBytes = 63
