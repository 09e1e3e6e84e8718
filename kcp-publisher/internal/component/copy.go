package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// CopyTo copies the component version as it is into a repository of the same name below the place, and gives the name under
// which its content can be read there. A version that is there already costs one request.
func (c Component) CopyTo(ctx context.Context, place store.Store) (string, error) {
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
	there, err := store.Head(ctx, to, tag)
	switch {
	case err == nil && there == c.Manifest.Digest:
		return nil
	case err == nil:
		return fmt.Errorf("component %s:%s changed under the same version: %s has %s, the source has %s", c.Descriptor.Name, c.Descriptor.Version, where, there, c.Manifest.Digest)
	case !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("look for component %s in %s: %w", c.Descriptor.Name, where, err)
	}
	// By digest, so that what was read is what is copied.
	options := oras.DefaultCopyOptions
	options.FindSuccessors = withoutSubject
	if _, err := oras.Copy(ctx, from, c.Manifest.Digest.String(), to, tag, options); err != nil {
		return fmt.Errorf("copy component %s:%s to %s: %w", c.Descriptor.Name, c.Descriptor.Version, where, err)
	}
	return nil
}

// withoutSubject returns what a manifest is made of. Its subject is what it is about, such as OCM's index of all components, and need
// not be where the component is.
func withoutSubject(ctx context.Context, from content.Fetcher, of ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	all, err := content.Successors(ctx, from, of)
	if err != nil || of.MediaType != ocispec.MediaTypeImageManifest && of.MediaType != ocispec.MediaTypeImageIndex {
		return all, err
	}
	data, err := content.FetchAll(ctx, from, of)
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Subject *ocispec.Descriptor `json:"subject"`
	}
	if err := json.Unmarshal(data, &manifest); err != nil || manifest.Subject == nil {
		return all, err
	}
	return all[1:], nil // the subject comes first
}
