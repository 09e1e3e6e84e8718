package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// CopyTo copies the component version unchanged to the component's repository in the target, a location in a registry.
// It returns the full name of that repository. If the target already contains the version, CopyTo only checks that all
// blobs exist, with one request for the manifest and one for each blob.
func (c Component) CopyTo(ctx context.Context, target store.Store) (string, error) {
	_, err := c.copyTo(ctx, target)
	return target.Name(descriptorsPath + c.Descriptor.Name), err
}

// copyTo implements CopyTo. completed is true if the target already contained the version and copyTo copied
// missing blobs.
func (c Component) copyTo(ctx context.Context, target store.Store) (completed bool, err error) {
	to, err := target.Repository(ctx, descriptorsPath+c.Descriptor.Name)
	if err != nil {
		return false, err
	}
	return c.copyInto(ctx, to, target.String())
}

// isCopied reports whether the target contains the version's manifest. It does not check the blobs.
func (c Component) isCopied(ctx context.Context, place store.Store) (bool, error) {
	to, err := place.Repository(ctx, descriptorsPath+c.Descriptor.Name)
	if err != nil {
		return false, err
	}
	return c.existsIn(ctx, to, place.String())
}

// CopyInto is like CopyTo, but for other destinations, such as an archive. target returns the destination
// for a repository name. The parameter where describes the destination in errors.
func (c Component) CopyInto(ctx context.Context, target func(repository string) oras.Target, where string) error {
	_, err := c.copyInto(ctx, target(descriptorsPath+c.Descriptor.Name), where)
	return err
}

func (c Component) copyInto(ctx context.Context, to oras.Target, where string) (completed bool, err error) {
	if c.source == nil {
		return false,
			fmt.Errorf("component %s:%s has an inline descriptor and is not in a repository", c.Descriptor.Name,
				c.Descriptor.Version)
	}
	from, err := c.source.Open(c.Descriptor.Name)
	if err != nil {
		return false, err
	}
	there, err := c.existsIn(ctx, to, where)
	if err != nil {
		return false, err
	}
	options := oras.DefaultCopyOptions
	options.FindSuccessors = (&successors{}).find
	if there {
		return c.copyMissing(ctx, from, to, options.CopyGraphOptions, where)
	}
	// Copying by digest copies exactly the version that was read.
	err = store.RetryPaused(func() error {
		_, err := oras.Copy(ctx, from, c.Manifest.Digest.String(), to, ocm.Tag(c.Descriptor.Version), options)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("copy component %s:%s to %s: %w", c.Descriptor.Name, c.Descriptor.Version, where, err)
	}
	return false, nil
}

// existsIn reports whether a destination contains the version. It returns an error if the version's tag in the
// destination refers to another manifest.
func (c Component) existsIn(ctx context.Context, to oras.ReadOnlyTarget, where string) (bool, error) {
	there, err := store.Head(ctx, to, ocm.Tag(c.Descriptor.Version))
	switch {
	case err == nil && there == c.Manifest.Digest:
		return true, nil
	case err == nil:
		return false,
			fmt.Errorf("component %s:%s changed, but the version did not: %s has %s, the source has %s",
				c.Descriptor.Name, c.Descriptor.Version, where, there, c.Manifest.Digest)
	case !errors.Is(err, store.ErrNotFound):
		return false, fmt.Errorf("look up component %s in %s: %w", c.Descriptor.Name, where, err)
	}
	return false, nil
}

// copyMissing copies the version's blobs that the destination lacks, and returns true if it copied at least one. A
// registry can lose blobs but keep the manifest.
func (c Component) copyMissing(
	ctx context.Context, from oras.ReadOnlyTarget, to oras.Target, options oras.CopyGraphOptions, where string,
) (bool, error) {
	var missing atomic.Bool
	options.PostCopy = func(context.Context, ocispec.Descriptor) error {
		missing.Store(true)
		return nil
	}
	parts, err := options.FindSuccessors(ctx, from, c.Manifest)
	for i := 0; err == nil && i < len(parts); i++ {
		err = store.RetryPaused(func() error { return oras.CopyGraph(ctx, from, to, parts[i], options) })
	}
	if err != nil {
		return false,
			fmt.Errorf("complete component %s:%s in %s: %w", c.Descriptor.Name, c.Descriptor.Version, where, err)
	}
	return missing.Load(), nil
}

// maxManifestsBytes limits the total size of the manifests and indexes in a component version that is copied, because
// oras keeps them in memory.
const maxManifestsBytes = 64 << 20

// successors finds a component version's blobs and limits its manifests' size.
type successors struct{ manifestsBytes atomic.Int64 }

// find returns the descriptors that a manifest refers to, except its subject, which the source might not contain.
func (s *successors) find(
	ctx context.Context, from content.Fetcher, of ocispec.Descriptor,
) ([]ocispec.Descriptor, error) {
	limited := store.FetcherFunc(func(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
		if s.manifestsBytes.Add(d.Size) > maxManifestsBytes {
			return nil, refusal.New(refusal.TooLarge, "the manifests of the component version are more than %d MiB",
				maxManifestsBytes>>20)
		}
		return from.Fetch(ctx, d)
	})
	all, err := content.Successors(ctx, limited, of)
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
