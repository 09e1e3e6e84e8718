package intake

import (
	"context"
	"errors"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Contents reads the module contents that bundles refer to.
type Contents struct {
	// Place is the store with the bundles. If nil, Fetch reads each content only from the repository that the bundle
	// names.
	Place      store.Store
	Registries *store.Registries
}

// Fetch reads content and verifies its digest. It tries the repository that the bundle names and the agent's location,
// Place. If the repository is in another registry than Place, Fetch tries Place first, because requests to other
// registries can hang behind an air gap.
func (c Contents) Fetch(
	ctx context.Context, content bundle.Content, settings bundle.Settings, limit int64,
) ([]byte, error) {
	named := func() (store.Reader, error) {
		return store.Locate(ctx, c.Place, c.Registries, content.Repository, settings.Mirrored)
	}
	order := []func() (store.Reader, error){named}
	if c.Place != nil {
		beside := func() (store.Reader, error) { return c.Place.Reading(ctx, bundle.ContentRepository) }
		if order = append(order, beside); !c.Place.Holds(settings.Mirrored(content.Repository)) {
			order[0], order[1] = order[1], order[0]
		}
	}
	d := content.Descriptor()
	var problems []error
	for _, open := range order {
		from, err := open()
		if err == nil {
			var data []byte
			if data, err = store.FetchBlob(ctx, from, d, limit); err == nil {
				return data, nil
			}
		}
		problems = append(problems, err)
	}
	if last := problems[len(problems)-1]; errors.Is(problems[0], store.ErrNotFound) {
		return nil, last
	}
	return nil, problems[0]
}
