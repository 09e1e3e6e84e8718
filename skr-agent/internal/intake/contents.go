package intake

import (
	"context"
	"errors"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Contents reads the module content that bundles refer to.
type Contents struct {
	// Location is the store with the bundles. If nil, Fetch reads content only from the repository that the bundle
	// names.
	Location   store.Store
	Registries *store.Registries
}

// Fetch reads content and verifies its digest. It tries the repository that the bundle names and the agent's own
// location. If the repository and the location are in different registries, Fetch tries the location first, because
// requests to other registries can hang behind an air gap.
func (c Contents) Fetch(
	ctx context.Context, content bundle.Content, settings bundle.Settings, limit int64,
) ([]byte, error) {
	named := func() (store.Reader, error) {
		return store.Locate(ctx, c.Location, c.Registries, content.Repository, settings.MirroredName)
	}
	order := []func() (store.Reader, error){named}
	if c.Location != nil {
		beside := func() (store.Reader, error) { return c.Location.Reading(ctx, bundle.ContentRepository) }
		if order = append(order, beside); !c.Location.Holds(settings.MirroredName(content.Repository)) {
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
