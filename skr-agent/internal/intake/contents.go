package intake

import (
	"context"
	"errors"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Contents is where the contents that bundles name are read.
type Contents struct {
	// Place is the store that the bundles are in; nil reads contents only where they are named.
	Place      store.Store
	Registries *store.Registries
}

// Fetch reads a content where it is named, or beside the bundles, where content that was carried lies; its digest says
// that it is the right one. Beside the bundles comes first when the other place is another registry: behind an air gap
// that one does not even refuse. The error is of the place that was asked first.
func (c Contents) Fetch(ctx context.Context, content bundle.Content, settings bundle.Settings, limit int64) ([]byte, error) {
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
