package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
)

// source is an in-memory repository that counts requests.
type source struct {
	mu       sync.Mutex
	blobs    map[digest.Digest][]byte
	tags     map[string]ocispec.Descriptor
	down     error
	fetched  atomic.Int64
	resolved atomic.Int64
	wait     chan struct{} // if not nil, fetches block until it is closed
}

func newSource() *source {
	return &source{blobs: map[digest.Digest][]byte{}, tags: map[string]ocispec.Descriptor{}}
}

func (s *source) add(data []byte) ocispec.Descriptor {
	s.mu.Lock()
	defer s.mu.Unlock()
	desc := ocispec.Descriptor{
		MediaType: "application/octet-stream", Digest: digest.FromBytes(data), Size: int64(len(data)),
	}
	s.blobs[desc.Digest] = data
	return desc
}

func (s *source) tag(name, manifest string) ocispec.Descriptor {
	desc := s.add([]byte(manifest))
	desc.MediaType = ocispec.MediaTypeImageManifest
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tags[name] = desc
	s.tags[desc.Digest.String()] = desc
	return desc
}

func (s *source) Fetch(ctx context.Context, target ocispec.Descriptor) (io.ReadCloser, error) {
	s.fetched.Add(1)
	s.mu.Lock()
	data, ok := s.blobs[target.Digest]
	down, wait := s.down, s.wait
	s.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if down != nil {
		return nil, down
	}
	if !ok {
		return nil, fmt.Errorf("%s: %w", target.Digest, errdef.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (s *source) Exists(_ context.Context, target ocispec.Descriptor) (bool, error) {
	s.resolved.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.blobs[target.Digest]
	return ok, s.down
}

func (s *source) Resolve(_ context.Context, reference string) (ocispec.Descriptor, error) {
	s.resolved.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	desc, ok := s.tags[reference]
	if s.down != nil || !ok {
		return desc, errors.Join(s.down, errdef.ErrNotFound)
	}
	return desc, nil
}

// referenceSource returns a manifest in one request, as a registry does.
type referenceSource struct{ *source }

func (s referenceSource) FetchReference(
	ctx context.Context, reference string,
) (ocispec.Descriptor, io.ReadCloser, error) {
	s.mu.Lock()
	desc, ok := s.tags[reference]
	s.mu.Unlock()
	if !ok {
		return desc, nil, errdef.ErrNotFound
	}
	body, err := s.Fetch(ctx, desc)
	return desc, body, err
}
