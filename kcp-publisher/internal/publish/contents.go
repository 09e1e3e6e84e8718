package publish

import (
	"context"
	"fmt"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
)

// contents reads the components that a request needs, with a fingerprint of what was read. A component that cannot be read is
// that module's trouble alone.
func (p *Publisher) contents(ctx context.Context, needs []resolve.Need) (map[resolve.Ref]resolve.Content, string, error) {
	contents := make(map[resolve.Ref]resolve.Content, len(needs))
	var fingerprint strings.Builder
	for _, need := range needs {
		if _, done := contents[need.Ref]; done {
			continue
		}
		content, err := p.content(ctx, need)
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		content.Err = err
		contents[need.Ref] = content
		fmt.Fprintf(&fingerprint, "%v\n", content)
		if content.Values != nil {
			fmt.Fprintf(&fingerprint, "%v\n", *content.Values)
		}
	}
	return contents, fingerprint.String(), nil
}

func (p *Publisher) content(ctx context.Context, need resolve.Need) (resolve.Content, error) {
	found, err := p.component(ctx, need)
	if err != nil {
		return resolve.Content{}, err
	}
	selection, err := resolve.Select(found.Descriptor)
	if err != nil {
		return resolve.Content{}, err
	}
	all, err := p.Components.Closure(ctx, found)
	if err != nil {
		return resolve.Content{}, err
	}
	content := resolve.Content{Images: component.Images(all)}
	if content.Install, err = p.part(ctx, found, selection.Install, selection.Type); err != nil {
		return resolve.Content{}, err
	}
	if selection.Values != nil {
		values, err := p.part(ctx, found, *selection.Values, v1beta2.OCIRef)
		if err != nil {
			return resolve.Content{}, err
		}
		content.Values = &values
	}
	return content, nil
}

func (p *Publisher) component(ctx context.Context, need resolve.Need) (component.Component, error) {
	if need.Descriptor != nil {
		return p.Components.Inline(ctx, *need.Descriptor)
	}
	return p.Components.Component(ctx, need.Component, need.Version)
}

// part names a resource's content where runtimes read it from.
func (p *Publisher) part(ctx context.Context, c component.Component, r ocm.Resource, kind v1beta2.ImageSpecType) (resolve.Part, error) {
	content, err := p.Components.Content(ctx, c, r, p.Place)
	if err != nil {
		return resolve.Part{}, err
	}
	return resolve.Part{
		Name: r.Name, Type: kind, Repository: content.Repository,
		MediaType: content.MediaType, Digest: content.Digest, SizeBytes: content.Size,
	}, nil
}
