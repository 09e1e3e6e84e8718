package store

import (
	"context"
	"errors"
	"io"
	"io/fs"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
)

// DryRun returns a store that reads from another store and writes only to memory.
func DryRun(of Store) Store { return &dryRun{Store: of, written: NewMemory()} }

type dryRun struct {
	Store
	written *Memory
}

func (s *dryRun) Repository(ctx context.Context, name string) (oras.Target, error) {
	base, err := s.Store.Reading(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // treat a missing OCI layout as empty
		return nil, err
	}
	return &dryRunRepository{written: s.written.repository(name), base: base}, nil
}

func (s *dryRun) Reading(ctx context.Context, name string) (oras.ReadOnlyTarget, error) {
	return s.Repository(ctx, name)
}

type dryRunRepository struct {
	written *memoryRepository
	base    oras.ReadOnlyTarget // nil if the repository does not exist
}

func (r *dryRunRepository) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	if there, err := r.written.Exists(ctx, d); err != nil || there || r.base == nil {
		return r.written.Fetch(ctx, d)
	}
	return r.base.Fetch(ctx, d)
}

func (r *dryRunRepository) Exists(ctx context.Context, d ocispec.Descriptor) (bool, error) {
	if there, err := r.written.Exists(ctx, d); err != nil || there || r.base == nil {
		return there, err
	}
	return r.base.Exists(ctx, d)
}

func (r *dryRunRepository) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	d, err := r.written.Resolve(ctx, reference)
	if err == nil || r.base == nil {
		return d, err
	}
	return r.base.Resolve(ctx, reference)
}

func (r *dryRunRepository) Push(ctx context.Context, d ocispec.Descriptor, content io.Reader) error {
	return r.written.Push(ctx, d, content)
}

func (r *dryRunRepository) Tag(ctx context.Context, d ocispec.Descriptor, reference string) error {
	if there, err := r.written.Exists(ctx, d); err != nil || there || r.base == nil {
		return r.written.Tag(ctx, d, reference)
	}
	content, err := r.base.Fetch(ctx, d)
	if err != nil {
		return err
	}
	defer content.Close()
	if err := r.written.Push(ctx, d, content); err != nil {
		return err
	}
	return r.written.Tag(ctx, d, reference)
}
