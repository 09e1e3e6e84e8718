package catalog

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// ProvidedBy returns the catalog for modules with this spec.modules[].controller: it contains only ModuleTemplates with
// that value in the label controller-name. For an empty name it contains all templates.
func (s *Snapshot) ProvidedBy(controller string) *Snapshot {
	if controller == s.controller {
		return s
	}
	narrowed := *s
	narrowed.controller = controller
	return &narrowed
}

// provided returns the templates that the snapshot contains.
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

// unprovided returns the reason why the controller name excludes all of a module's templates, nil if it does not.
func (s *Snapshot) unprovided(module string, all []*template) error {
	if len(all) == 0 || len(s.provided(all)) > 0 {
		return nil
	}
	return reason.Errorf(reason.CatalogInvalid,
		"module %s: ModuleTemplate %s is not provided under the controller name %s: label it %s, or correct "+
			"spec.modules[].controller",
		module, key(slices.MinFunc(all, byKey)), bundle.Quote(s.controller, maxControllerBytes),
		v1beta2.LabelControllerName)
}

// maxControllerBytes is the displayed length of a controller name, the maximum of a label.
const maxControllerBytes = 63
