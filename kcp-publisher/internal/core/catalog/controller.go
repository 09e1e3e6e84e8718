package catalog

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// ProvidedBy returns the catalog as a module sees it whose spec.modules[].controller is that name: only ModuleTemplates
// with the label controller-name of that value are looked up. For an empty name all templates are.
func (s *Snapshot) ProvidedBy(controller string) *Snapshot {
	if controller == s.controller {
		return s
	}
	narrowed := *s
	narrowed.controller = controller
	return &narrowed
}

// provided returns those of the templates that the snapshot looks up.
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

// unprovided returns why none of a module's templates counts, nil where that is not because of the controller name.
func (s *Snapshot) unprovided(module string, all []*template) error {
	if len(all) == 0 || len(s.provided(all)) > 0 {
		return nil
	}
	return reason.Errorf(reason.CatalogInvalid, "module %s: ModuleTemplate %s is not provided under the controller name %s: label it %s, or correct spec.modules[].controller",
		module, key(slices.MinFunc(all, byKey)), bundle.Quote(s.controller, maxControllerBytes), v1beta2.LabelControllerName)
}

// maxControllerBytes is how much of a controller name is shown: as much as a label can have.
const maxControllerBytes = 63
