package publish

import (
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
)

// contents reads the components that a request needs, each once. A component that cannot be read is that module's trouble alone.
func (p *Publisher) contents(ctx context.Context, needs []resolve.Need) (map[resolve.Ref]resolve.Content, []input, error) {
	contents := make(map[resolve.Ref]resolve.Content, len(needs))
	read := make([]input, 0, len(needs))
	for _, need := range needs {
		if _, done := contents[need.Ref]; done {
			continue
		}
		content, err := p.content(ctx, need)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		one := input{Ref: need.Ref, Content: content}
		if err != nil {
			one.Error = err.Error()
		}
		read = append(read, one)
		content.Err = err
		contents[need.Ref] = content
	}
	return contents, read, nil
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
	signed := p.Requires != nil && p.Requires(need.Component)
	if p.Requires != nil && !signed && need.NamesItself {
		return resolve.Content{}, fmt.Errorf("component %s:%s: only its own descriptor says which component it is, and the signature policy lets that one be unsigned: name it in ModuleReleaseMeta spec.ocmComponentName", need.Component, need.Version)
	}
	root := p.Root()
	content := resolve.Content{Images: component.Images(all, signed || root.Locked())}
	evidence := &evidence{}
	if content.Install, err = p.part(ctx, found, selection.Install, selection.Type, evidence); err != nil {
		return resolve.Content{}, err
	}
	if selection.Values != nil {
		values, err := p.part(ctx, found, *selection.Values, v1beta2.OCIRef, evidence)
		if err != nil {
			return resolve.Content{}, err
		}
		content.Values = &values
	}
	return content, p.prove(ctx, root, all, evidence, &content)
}

func (p *Publisher) component(ctx context.Context, need resolve.Need) (component.Component, error) {
	if need.Descriptor != nil {
		return p.Components.Inline(ctx, *need.Descriptor)
	}
	return p.Components.Component(ctx, need.Component, need.Version)
}

// part names a resource's content where runtimes read it from.
func (p *Publisher) part(ctx context.Context, c component.Component, r ocm.Resource, kind v1beta2.ImageSpecType, evidence *evidence) (resolve.Part, error) {
	content, err := p.Components.Content(ctx, c, r, p.Place)
	if err != nil {
		return resolve.Part{}, err
	}
	if content.Manifest != nil {
		evidence.add(ocispec.MediaTypeImageManifest, content.Manifest)
	}
	return resolve.Part{Content: content.Content, Type: kind}, nil
}
