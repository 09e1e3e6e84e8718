// Package component reads OCM component versions and locates their content.
//
// All data is limited in size and verified against its digest. A manifest must never change for the same version. If
// runtimes cannot read content at its original location, the package copies the content to the runtimes' registry.
package component

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// ErrMissing means that no source has the component version.
var ErrMissing = reason.Errorf(reason.ComponentNotFound, "component version not found")

// Component is a component version.
type Component struct {
	Descriptor ocm.Descriptor
	// Manifest is the component version's manifest or index. It can be empty for an inline descriptor.
	Manifest ocispec.Descriptor
	// Repository is the OCI repository that runtimes can read the blobs from. It is empty if the blobs must first be
	// copied to the runtimes' registry.
	Repository string

	source Source
	root   root
	inline bool
	// id is the manifest's digest or, for an inline descriptor, the descriptor's digest.
	id digest.Digest
	// memoryBytes is the approximate memory for the descriptor and the manifest. It is zero for an inline descriptor.
	memoryBytes int
}

// Options configures a Reader.
type Options struct {
	// Sources are the places to look for a component version, in this order.
	Sources []Source
	// Registries opens the repositories that contain a component's content according to its descriptor.
	Registries *store.Registries
	// HelmRepositories contains the URL prefixes of the Helm repositories that charts can be read from.
	HelmRepositories []string
	// Revalidate limits the age of a cached version. After this time, the Reader checks in the registry whether the
	// version has changed. RetryAfter limits the age of a cached failure.
	Revalidate, RetryAfter time.Duration
	// Cached wraps a repository in a cache. It is nil if no cache is used.
	Cached func(oras.ReadOnlyTarget) oras.ReadOnlyTarget
	// Pins records the manifest digest of each version across restarts, or is nil.
	Pins Pins
	// Check returns an error if the version must not be used. If Check is nil, all versions are accepted.
	Check func(context.Context, *Reader, Component) error
	// Restored is called after content that was missing in the runtimes' registry was copied again. It can be nil.
	Restored func(ctx context.Context, what string)
}

// Pins permanently records the first digest of each name.
type Pins interface {
	Pinned(name string) (digest.Digest, bool)
	Pin(name string, d digest.Digest) error
}

// Reader finds component versions in its sources and caches them. It is safe for concurrent use.
type Reader struct {
	Options
	now  func() time.Time
	helm *http.Client // for Helm repositories

	mu       sync.Mutex // guards the fields below
	found    *memo.Memo[string, *entry]
	verdicts *memo.Memo[string, *verdict]
	settled  *memo.Memo[string, *settledContent]
	// firstManifests contains the manifest digest of each accepted version, which must not change. firstDigests
	// contains the first digest of each resource's reference, with the result of tagName as the key. Both caches are
	// limited in size, but Pins also keeps the digests that they drop.
	firstManifests, firstDigests *memo.Memo[string, digest.Digest]
	// accepted maps each version to the value of round at the time when Check last accepted it.
	accepted map[string]int
	// round counts the calls of RequestRecheck.
	round int
}

type entry struct {
	mu        sync.Mutex // locked while the version is read, so that concurrent callers read it once
	component Component
	err       error
	checked   time.Time
	// memoryBytes is the size of the entry when it was last stored in the cache.
	memoryBytes int
}

func (e *entry) read() bool { return e.component.Manifest.Digest != "" }

const (
	// maxRemembered limits the number of accepted and of cached versions.
	maxRemembered = 10_000
	// These limits bound the memory for cached values, because component authors choose the size of the values.
	// Descriptors and manifests can be 1 MiB each.
	maxFoundBytes, maxSettledBytes, maxVerdictsBytes = 64 << 20, 32 << 20, 8 << 20
	// maxDigestsBytes limits the memory of firstManifests and, separately, of firstDigests.
	maxDigestsBytes = 8 << 20
	// verdictLife is the time after which an accepted version is checked again, because the certificates of its
	// signatures can expire.
	verdictLife = time.Hour
	// readTimeout limits the time of reading a version, because other callers wait for the same version.
	readTimeout = 2 * time.Minute
)

// NewReader returns a Reader with an empty cache.
func NewReader(options Options) *Reader {
	var sources []Source
	for _, s := range options.Sources {
		sources = append(sources, s)
		if r, ok := s.(Registry); ok && r.Mapping == "" {
			r.Mapping = MappingDigest
			sources = append(sources, r)
		}
	}
	options.Sources = sources
	r := &Reader{
		Options: options, now: time.Now,
		found:    newCache(maxFoundBytes, func(e *entry) int { return e.memoryBytes }),
		verdicts: newCache(maxVerdictsBytes, func(v *verdict) int { return v.memoryBytes }),
		settled:  newCache(maxSettledBytes, func(s *settledContent) int { return s.memoryBytes }),
		accepted: map[string]int{}, firstManifests: memo.NewDigests(maxDigestsBytes),
		firstDigests: memo.NewDigests(maxDigestsBytes),
	}
	r.helm = r.newHelmClient()
	return r
}

// Component returns a component version that Check accepts. The error wraps ErrMissing if no source has the version.
func (r *Reader) Component(ctx context.Context, name, version string) (Component, error) {
	c, err := r.lookup(ctx, name, version)
	if err != nil {
		return Component{}, err
	}
	if err := r.checkCached(ctx, name+":"+version, c.Manifest.Digest, c); err != nil {
		return Component{}, err
	}
	return c, nil
}

func newCache[V any](limitBytes int, size func(*V) int) *memo.Memo[string, *V] {
	return memo.New(memo.Limit{Bytes: limitBytes, Entries: maxRemembered}, func(key string, value *V) int {
		return len(key) + size(value) + memo.EntryBytes
	})
}

// findOrAdd returns the value for a key in a cache. If the cache does not contain the key, it adds an empty value.
func findOrAdd[V any](r *Reader, cache *memo.Memo[string, *V], key string) *V {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, ok := cache.Get(key)
	if !ok {
		value = new(V)
		cache.Put(key, value)
	}
	return value
}

func (r *Reader) lookup(ctx context.Context, name, version string) (Component, error) {
	key := name + ":" + version
	e := findOrAdd(r, r.found, key)
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.isFresh(e) {
		return e.component, e.err
	}
	defer func() {
		e.memoryBytes = e.component.memoryBytes + errorBytes(e.err)
		r.found.Put(key, e)
	}()
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if e.read() && e.err == nil && e.component.isUnchanged(bounded) {
		e.checked = r.now()
		return e.component, nil
	}
	component, err := r.read(bounded, name, version)
	switch {
	case err != nil && ctx.Err() != nil:
		return Component{}, err // do not cache an error from the caller's context
	case err != nil && e.read() && !errors.Is(err, ErrMissing) && !errors.Is(err, errChanged):
		// Keep the cached version while the registry is unavailable.
		e.checked = r.now()
		return e.component, e.err
	case err == nil:
		err = r.acceptComponent(e, component)
	}
	e.err, e.checked = err, r.now()
	if err != nil {
		return Component{}, err
	}
	return e.component, nil
}

func (r *Reader) isFresh(e *entry) bool {
	lifetime := r.Revalidate
	if e.err != nil {
		lifetime = r.RetryAfter
	}
	return !e.checked.IsZero() && r.now().Sub(e.checked) < lifetime
}

func errorBytes(err error) int {
	if err == nil {
		return 0
	}
	return len(err.Error())
}

// acceptComponent stores the component in its cache entry. It returns an error if the same version was accepted with a
// different manifest before.
func (r *Reader) acceptComponent(e *entry, component Component) error {
	was, is := r.firstManifest(component), component.Manifest.Digest
	if was != "" && is != was {
		return newChangedError(component.Descriptor.Name, component.Descriptor.Version, was, is)
	}
	e.component = component
	if r.Check != nil {
		return nil
	}
	r.recordManifest(component)
	return r.pin(component)
}

func (r *Reader) firstManifest(c Component) digest.Digest {
	first, _ := r.firstManifests.Get(c.Descriptor.Name + ":" + c.Descriptor.Version)
	return first
}

// recordManifest records the manifest of a version when the version is accepted for the first time.
func (r *Reader) recordManifest(c Component) {
	r.mu.Lock() // a concurrent caller must not replace the first digest
	defer r.mu.Unlock()
	key := c.Descriptor.Name + ":" + c.Descriptor.Version
	if _, known := r.firstManifests.Get(key); !known {
		r.firstManifests.Put(key, c.Manifest.Digest)
	}
}

var errChanged = errors.New("changed, but the version did not")

func newChangedError(name, version string, was, is digest.Digest) error {
	return fmt.Errorf("component %s:%s %w: was %s, is %s: release a new version instead", name, version, errChanged,
		was, is)
}

// isUnchanged reports whether the version's tag still refers to the same manifest. The check takes one request, while
// reading the version again takes three.
func (c Component) isUnchanged(ctx context.Context) bool {
	repository, err := c.source.Open(c.Descriptor.Name)
	if err != nil {
		return false
	}
	there, err := store.Head(ctx, repository, ocm.Tag(c.Descriptor.Version))
	return err == nil && there == c.Manifest.Digest
}

func (r *Reader) read(ctx context.Context, name, version string) (Component, error) {
	if err := ocm.CheckName(name); err != nil {
		return Component{}, err
	}
	if err := ocm.CheckVersion(version); err != nil {
		return Component{}, err
	}
	for _, source := range r.Sources {
		component, err := r.readFrom(ctx, source, name, version)
		if errors.Is(err, errNoVersion) {
			continue
		}
		if err != nil {
			return Component{}, fmt.Errorf("component %s:%s in %s: %w", name, version, source, err)
		}
		return component, nil
	}
	return Component{}, fmt.Errorf("component %s:%s: %w in %s", name, version, ErrMissing, sourceNames(r.Sources))
}

func sourceNames(sources []Source) string {
	var names []string
	for _, s := range sources {
		if len(names) == 0 || names[len(names)-1] != s.String() {
			names = append(names, s.String())
		}
	}
	if len(names) == 0 {
		return "any repository: set --components"
	}
	return strings.Join(names, ", ")
}

var errNoVersion = errors.New("version not found")

func (r *Reader) readFrom(ctx context.Context, source Source, name, version string) (Component, error) {
	repository, err := r.open(source, name)
	if err != nil {
		return Component{}, err
	}
	reference, err := r.reference(ctx, repository, name, version)
	if err != nil {
		return Component{}, err
	}
	fetched, err := store.Fetch(ctx, repository, reference)
	if errors.Is(err, store.ErrNotFound) {
		return Component{}, errNoVersion
	}
	if err != nil {
		return Component{}, err
	}
	component, err := readVersion(ctx, repository, fetched, name, version)
	if err != nil {
		return Component{}, err
	}
	component.source, component.Repository, component.id = source, source.Repository(name), component.Manifest.Digest
	component.memoryBytes = memo.MemoryOf(component.Descriptor) + memo.MemoryOf(component.root.layers) +
		memo.MemoryOf(component.root.entries)
	return component, nil
}

func (r *Reader) open(source Source, name string) (oras.ReadOnlyTarget, error) {
	repository, err := source.Open(name)
	if err == nil && r.Cached != nil {
		repository = r.Cached(repository)
	}
	return repository, err
}

// reference returns the pinned digest of the version, or the version's tag if it is not pinned.
func (r *Reader) reference(ctx context.Context, repository oras.ReadOnlyTarget, name, version string) (string, error) {
	tag := ocm.Tag(version)
	if r.Pins == nil {
		return tag, nil
	}
	pinned, ok := r.Pins.Pinned(name + ":" + version)
	if !ok {
		return tag, nil
	}
	there, err := store.Head(ctx, repository, tag)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", errNoVersion
	case err == nil && there != pinned:
		return "", newChangedError(name, version, pinned, there)
	}
	return pinned.String(), nil
}
