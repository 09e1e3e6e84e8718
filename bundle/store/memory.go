package store

import (
	"context"
	"io"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
)

// Memory stores repositories in memory. It is safe for concurrent use.
type Memory struct {
	mu           sync.Mutex // guards repositories
	repositories map[string]*memoryRepository
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{repositories: map[string]*memoryRepository{}} }

// String returns memory:.
func (m *Memory) String() string { return "memory:" }

// Name returns ./REPOSITORY, the format of the store's repositories in bundle.Content.
func (m *Memory) Name(repository string) string { return "./" + repository }

// Holds reports whether a repository belongs to the store.
func (m *Memory) Holds(repository string) bool { return strings.HasPrefix(repository, "./") }

// Repository returns the repository with this name. If the repository does not exist, it is created.
func (m *Memory) Repository(_ context.Context, name string) (oras.Target, error) {
	return m.repository(name), nil
}

// Reading returns the repository with this name. If the repository does not exist, it is created.
func (m *Memory) Reading(_ context.Context, name string) (oras.ReadOnlyTarget, error) {
	return m.repository(name), nil
}

func (m *Memory) repository(name string) *memoryRepository {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.repositories[name]
	if !ok {
		found = &memoryRepository{memory.New()}
		m.repositories[name] = found
	}
	return found
}

// memoryRepository resolves digests in addition to tags. oras's memory store resolves only tags.
type memoryRepository struct{ *memory.Store }

func (r *memoryRepository) Push(ctx context.Context, d ocispec.Descriptor, content io.Reader) error {
	if err := r.Store.Push(ctx, d, content); err != nil {
		return err
	}
	return r.Tag(ctx, d, d.Digest.String())
}
