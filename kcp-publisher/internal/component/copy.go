package component

import (
	"context"
	"errors"
	"fmt"

	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

// CopyTo copies the component version as it is into a repository of the same name below the place, and gives the name under
// which its content can be read there. A version that is there already costs one request.
func (c Component) CopyTo(ctx context.Context, place *bundle.Place) (string, error) {
	name := descriptorsPath + c.Descriptor.Name
	to, err := place.Repository(ctx, name)
	if err != nil {
		return "", err
	}
	return place.Name(name), c.copyInto(ctx, to, place.String())
}

// CopyInto does the same into a place that gives a target for the name of a repository, such as an archive.
func (c Component) CopyInto(ctx context.Context, target func(repository string) oras.Target, where string) error {
	return c.copyInto(ctx, target(descriptorsPath+c.Descriptor.Name), where)
}

func (c Component) copyInto(ctx context.Context, to oras.Target, where string) error {
	if c.source == nil {
		return fmt.Errorf("component %s:%s: was given as a descriptor alone and is in no repository", c.Descriptor.Name, c.Descriptor.Version)
	}
	from, err := c.source.Open(c.Descriptor.Name)
	if err != nil {
		return err
	}
	tag := ocm.Tag(c.Descriptor.Version)
	there, err := bundle.Head(ctx, to, tag)
	switch {
	case err == nil && there == c.Manifest.Digest:
		return nil
	case err == nil:
		return fmt.Errorf("component %s:%s changed under the same version: %s has %s, the source has %s", c.Descriptor.Name, c.Descriptor.Version, where, there, c.Manifest.Digest)
	case !errors.Is(err, bundle.ErrNotFound):
		return fmt.Errorf("look for component %s in %s: %w", c.Descriptor.Name, where, err)
	}
	// By digest, so that what was read is what is copied.
	if _, err := oras.Copy(ctx, from, c.Manifest.Digest.String(), to, tag, oras.DefaultCopyOptions); err != nil {
		return fmt.Errorf("copy component %s:%s to %s: %w", c.Descriptor.Name, c.Descriptor.Version, where, err)
	}
	return nil
}
