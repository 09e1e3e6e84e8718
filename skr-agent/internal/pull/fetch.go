package pull

import (
	"context"
	"errors"
	"maps"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// fetch reads a content where it is named, or beside the bundles, where content that was carried lies; its digest says that it is
// the right one. Beside the bundles comes first when the other place is another registry: behind an air gap that one does not even
// refuse. The error is of the place that was asked first.
func (p *Puller) fetch(ctx context.Context, c bundle.Content, settings bundle.Settings, limit int64) ([]byte, error) {
	d := ocispec.Descriptor{MediaType: c.MediaType, Digest: c.Digest, Size: c.SizeBytes}
	named := func() (oras.ReadOnlyTarget, error) {
		if relative, ok := strings.CutPrefix(c.Repository, "./"); ok {
			return p.Place.Reading(ctx, relative)
		}
		return p.Registries.Repository(settings.Mirrored(c.Repository))
	}
	beside := func() (oras.ReadOnlyTarget, error) { return p.Place.Reading(ctx, bundle.ContentRepository) }
	order := []func() (oras.ReadOnlyTarget, error){named, beside}
	if !p.Place.Holds(settings.Mirrored(c.Repository)) {
		order = []func() (oras.ReadOnlyTarget, error){beside, named}
	}
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
	if errors.Is(problems[0], store.ErrNotFound) {
		return nil, problems[1]
	}
	return nil, problems[0]
}

// here is a bundle as it is followed in this cluster, with the mirrors that only this cluster knows of.
func (p *Puller) here(b bundle.Bundle) *bundle.Bundle {
	if len(p.Mirrors) == 0 {
		return &b
	}
	own, mirrors := bundle.Settings{Mirrors: p.Mirrors}, maps.Clone(p.Mirrors)
	for from, to := range b.State.Settings.Mirrors {
		// Nor may one of a part of what is mirrored here lead away from it.
		if name := bundle.OneName(from); own.Mirrored(name) == name {
			mirrors[name] = to
		}
	}
	b.State.Settings.Mirrors = mirrors
	return &b
}
