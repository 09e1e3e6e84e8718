package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	kjson "sigs.k8s.io/json"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Wrap returns a repository that reads content from disk if possible, and otherwise from its source, the repository in
// from. It always resolves tags at the source. While the source is unavailable, callers can still read content by
// digest if it is on disk.
func (c *Cache) Wrap(from oras.ReadOnlyTarget) oras.ReadOnlyTarget {
	r := repository{cache: c, from: from}
	if fetcher, ok := from.(registry.ReferenceFetcher); ok {
		return referenceRepository{repository: r, fetcher: fetcher}
	}
	return r
}

type repository struct {
	cache *Cache
	from  oras.ReadOnlyTarget
}

// Resolve resolves a tag at the source, and a digest on disk if possible.
func (r repository) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	if desc, _, ok := r.cache.manifest(reference); ok {
		return desc, nil
	}
	return r.from.Resolve(ctx, reference)
}

// Exists reports whether the content is on disk or at the source.
func (r repository) Exists(ctx context.Context, target ocispec.Descriptor) (bool, error) {
	if name, ok := blobFileName(target.Digest); ok {
		if info, err := r.cache.root.Lstat(name); err == nil && info.Mode().IsRegular() && info.Size() == target.Size {
			return true, nil
		}
	}
	return r.from.Exists(ctx, target)
}

// Fetch returns content from disk, or fetches it from the source and writes it to disk. Concurrent calls share one
// request.
func (r repository) Fetch(ctx context.Context, target ocispec.Descriptor) (io.ReadCloser, error) {
	c := r.cache
	if !c.canStore(target) {
		return r.fetchThrough(ctx, target)
	}
	if body := c.load(target.Digest, target.Size); body != nil {
		return body, nil
	}
	got, err := c.fetchOnce(ctx, fmt.Sprintf("%s %d", target.Digest, target.Size), func() (fetchResult, error) {
		// Look again, because another caller may have stored the blob in the meantime.
		if body := c.load(target.Digest, target.Size); body != nil {
			defer body.Close()
			if target.Size > smallBytes {
				return fetchResult{desc: target}, nil
			}
			data, err := io.ReadAll(body)
			return fetchResult{desc: target, data: data}, err
		}
		body, err := r.from.Fetch(ctx, target)
		if err != nil {
			return fetchResult{}, err
		}
		return c.storeFetched(target, body)
	})
	if err != nil {
		return nil, err
	}
	return r.openFetched(ctx, got)
}

// openFetched opens content after fetchOnce has fetched it. If another process has deleted the content from the disk,
// openFetched fetches it again.
func (r repository) openFetched(ctx context.Context, got fetchResult) (io.ReadCloser, error) {
	if got.data != nil {
		return io.NopCloser(bytes.NewReader(got.data)), nil
	}
	if body := r.cache.load(got.desc.Digest, got.desc.Size); body != nil {
		return body, nil
	}
	return r.fetchThrough(ctx, got.desc)
}

func (r repository) fetchThrough(ctx context.Context, target ocispec.Descriptor) (io.ReadCloser, error) {
	body, err := r.from.Fetch(ctx, target)
	if err != nil {
		return nil, err
	}
	return newVerifyingReader(target, body), nil
}

// fetchResult is the result of a fetch. Content of up to smallBytes is in memory, and larger content is on disk.
type fetchResult struct {
	desc ocispec.Descriptor
	data []byte
}

// storeFetched writes a body to disk and closes it. It ignores disk errors, so that the next read fetches the content
// again.
func (c *Cache) storeFetched(desc ocispec.Descriptor, body io.ReadCloser) (fetchResult, error) {
	defer body.Close()
	data, err := c.store(desc, body)
	var disk errDisk
	if err != nil && !errors.As(err, &disk) {
		return fetchResult{},
			fmt.Errorf("blob %s of %d bytes: the source sent different content: %w", desc.Digest, desc.Size, err)
	}
	return fetchResult{desc: desc, data: data}, nil
}

// fetchOnce calls fetch once for all concurrent callers with the same key, and returns the result to all of them.
func (c *Cache) fetchOnce(ctx context.Context, key string, fetch func() (fetchResult, error)) (fetchResult, error) {
	for {
		mine := false // a lock is not needed: the flight's channel orders the write before the read
		flight := c.flights.DoChan(key, func() (any, error) {
			mine = true
			return fetch()
		})
		select {
		case <-ctx.Done():
			return fetchResult{}, ctx.Err()
		case result := <-flight:
			if !mine && isOthersError(result.Err) && ctx.Err() == nil {
				continue
			}
			got, _ := result.Val.(fetchResult)
			return got, result.Err
		}
	}
}

// isOthersError reports whether an error concerns only another caller, for example because that caller's context ended.
func isOthersError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, errdef.ErrNotFound)
}

// referenceRepository is a repository whose source returns a descriptor and its content in one request.
type referenceRepository struct {
	repository
	fetcher registry.ReferenceFetcher
}

// FetchReference returns a manifest by digest or tag in at most one request to the source.
func (r referenceRepository) FetchReference(
	ctx context.Context, reference string,
) (ocispec.Descriptor, io.ReadCloser, error) {
	c := r.cache
	if desc, data, ok := c.manifest(reference); ok {
		return desc, io.NopCloser(bytes.NewReader(data)), nil
	}
	if _, ok := blobFileName(digest.Digest(reference)); !ok {
		return r.fetchTag(ctx, reference)
	}
	got, err := c.fetchOnce(ctx, reference, func() (fetchResult, error) {
		desc, body, err := r.fetcher.FetchReference(ctx, reference)
		if err != nil {
			return fetchResult{}, err
		}
		if desc.Digest.String() != reference {
			return fetchResult{},
				errors.Join(fmt.Errorf("manifest %s: the source sent %s instead", reference, desc.Digest), body.Close())
		}
		if !c.canStore(desc) {
			return fetchResult{}, errors.Join(errNotCacheable, body.Close())
		}
		return c.storeFetched(desc, body)
	})
	if errors.Is(err, errNotCacheable) {
		return r.fetchTag(ctx, reference)
	}
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	body, err := r.openFetched(ctx, got)
	return got.desc, body, err
}

// errNotCacheable means that a manifest cannot be shared between callers, so that each caller must fetch it.
var errNotCacheable = errors.New("the manifest is too large for the cache")

func (r referenceRepository) fetchTag(ctx context.Context, tag string) (ocispec.Descriptor, io.ReadCloser, error) {
	c := r.cache
	desc, body, err := r.fetcher.FetchReference(ctx, tag)
	if err != nil {
		return desc, nil, err
	}
	if !c.canStore(desc) {
		return desc, newVerifyingReader(desc, body), nil
	}
	if kept := c.load(desc.Digest, desc.Size); kept != nil {
		return desc, kept, body.Close()
	}
	got, err := c.storeFetched(desc, body)
	if err != nil {
		return desc, nil, fmt.Errorf("manifest %s: %w", tag, err)
	}
	body, err = r.openFetched(ctx, got)
	return desc, body, err
}

// manifest returns a manifest from disk. It returns false if the manifest is not on disk or does not contain its own
// media type.
func (c *Cache) manifest(reference string) (ocispec.Descriptor, []byte, bool) {
	d := digest.Digest(reference)
	name, ok := blobFileName(d)
	if !ok {
		return ocispec.Descriptor{}, nil, false
	}
	info, err := c.root.Lstat(name)
	if err != nil || info.Size() > bundle.MaxManifestBytes {
		return ocispec.Descriptor{}, nil, false
	}
	body := c.load(d, info.Size())
	if body == nil {
		return ocispec.Descriptor{}, nil, false
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return ocispec.Descriptor{}, nil, false
	}
	var answer struct {
		MediaType string `json:"mediaType"`
	}
	if doubts, err := kjson.UnmarshalStrict(data, &answer, kjson.DisallowDuplicateFields); err != nil ||
		len(doubts) > 0 {
		return ocispec.Descriptor{}, nil, false
	}
	switch answer.MediaType {
	case ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex,
		"application/vnd.docker.distribution.manifest.v2+json",
		"application/vnd.docker.distribution.manifest.list.v2+json":
		return ocispec.Descriptor{MediaType: answer.MediaType, Digest: d, Size: int64(len(data))}, data, true
	}
	return ocispec.Descriptor{}, nil, false
}
