// Package component reads OCM component versions: a name and a version go in, the verified descriptor and the places of
// the contents come out.
//
// Everything read is bounded and checked against its digest. A version whose manifest changed under the same name is an
// error, never silently used. What runtimes cannot read where it is is stored beside their bundles.
package component

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// ErrMissing says that no source has the component version.
var ErrMissing = reason.Errorf(reason.ComponentNotFound, "component version not found")

// Component is a component version as it was found.
type Component struct {
	Descriptor ocm.Descriptor
	// Manifest is the component version's own manifest or index; empty for a descriptor that was given and is in no
	// repository.
	Manifest ocispec.Descriptor
	// Repository is the OCI repository with the blobs that runtimes read from; empty when it must be copied first.
	Repository string

	source Source
	root   root
	// given says that the descriptor did not come from the repository.
	given bool
	// id is the digest of what it was read from: its manifest, or the descriptor that was given.
	id digest.Digest
}

// Options are what a Reader needs.
type Options struct {
	// Sources are asked in their order.
	Sources []Source
	// Registries opens repositories that descriptors name.
	Registries *store.Registries
	// HelmRepositories are the URL prefixes of Helm repositories that may be read; a descriptor alone leads nowhere.
	HelmRepositories []string
	// Revalidate is how long a version is taken for unchanged, RetryAfter how long a failure is remembered.
	Revalidate, RetryAfter time.Duration
	// Cached wraps repositories that are read from; nil for none.
	Cached func(oras.ReadOnlyTarget) oras.ReadOnlyTarget
	// Pins remembers across restarts which manifest a version had; nil for none.
	Pins Pins
	// Check decides whether a version may be used; nil lets all pass.
	Check func(context.Context, *Reader, Component) error
	// Restored is told what had been put where runtimes read, and was missing there; nil for nobody.
	Restored func(ctx context.Context, what string)
}

// Pins remembers digests by name. A name that has one keeps it.
type Pins interface {
	Pinned(name string) (digest.Digest, bool)
	Pin(name string, d digest.Digest) error
}

// Reader finds component versions in its sources, in their order, and remembers them. It is safe for concurrent use.
type Reader struct {
	Options
	now func() time.Time

	mu       sync.Mutex // guards what follows
	found    map[string]*entry
	verdicts map[string]*verdict
	settled  map[string]*settled
	// accepted is the round in which a version was accepted last.
	accepted map[string]int
	// meant is what references of resources meant first, by tagName.
	meant map[string]digest.Digest
	// round counts Recheck: verdicts of earlier rounds are void.
	round int
}

type entry struct {
	mu        sync.Mutex // held while the version is read, so that it is read once
	component Component
	// frozen says that the version has been accepted as it is. Before that, a forged first answer must not shut out the
	// genuine one.
	frozen  bool
	err     error
	checked time.Time
}

// read reports whether the version was read at least once.
func (e *entry) read() bool { return e.component.Manifest.Digest != "" }

const (
	// maxRemembered bounds what is known of versions; a fleet has some hundred.
	maxRemembered = 10_000
	// verdictLife is how long a version stays accepted before it is checked again: certificates expire.
	verdictLife = time.Hour
	// readTimeout bounds what others may have to wait for that want the same version.
	readTimeout = 2 * time.Minute
)

// NewReader returns a Reader that has read nothing yet.
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
	return &Reader{
		Options: options, now: time.Now, found: map[string]*entry{}, verdicts: map[string]*verdict{},
		settled: map[string]*settled{}, accepted: map[string]int{}, meant: map[string]digest.Digest{},
	}
}

// Component returns a component version that may be used. It wraps ErrMissing when no source has it.
func (r *Reader) Component(ctx context.Context, name, version string) (Component, error) {
	c, err := r.lookup(ctx, name, version)
	if err != nil {
		return Component{}, err
	}
	if err := r.judge(ctx, name+":"+version, c.Manifest.Digest, c); err != nil {
		return Component{}, err
	}
	return c, nil
}

// entryOf returns what is known of a version.
func (r *Reader) entryOf(name, version string) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.found[name+":"+version]
	if e == nil {
		if len(r.found) >= maxRemembered {
			clear(r.found)
		}
		e = &entry{}
		r.found[name+":"+version] = e
	}
	return e
}

// lookup returns a component version as it is, whether or not it may be used.
func (r *Reader) lookup(ctx context.Context, name, version string) (Component, error) {
	e := r.entryOf(name, version)
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.fresh(e) {
		return e.component, e.err
	}
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if e.read() && e.err == nil && e.component.unchanged(bounded) {
		e.checked = r.now()
		return e.component, nil
	}
	component, err := r.read(bounded, name, version)
	switch {
	case err != nil && ctx.Err() != nil:
		return Component{}, err // says something about the caller, nothing about the version
	case err != nil && e.read() && !errors.Is(err, ErrMissing) && !errors.Is(err, errChanged):
		// What was read once is pinned by digest and stays true while the registry is away.
		e.checked = r.now()
		return e.component, e.err
	case err == nil:
		err = r.accept(e, component)
	}
	e.err, e.checked = err, r.now()
	if err != nil {
		return Component{}, err
	}
	return e.component, nil
}

// fresh reports whether an entry was read or looked at recently enough to be used as it is.
func (r *Reader) fresh(e *entry) bool {
	lifetime := r.Revalidate
	if e.err != nil {
		lifetime = r.RetryAfter
	}
	return !e.checked.IsZero() && r.now().Sub(e.checked) < lifetime
}

// accept stores a version that was read in its entry. A frozen entry takes no other manifest; without a check it is
// frozen at once.
func (r *Reader) accept(e *entry, component Component) error {
	if was, is := e.component.Manifest.Digest, component.Manifest.Digest; e.frozen && is != was {
		return changed(component.Descriptor.Name, component.Descriptor.Version, was, is)
	}
	e.component = component
	if r.Check != nil {
		return nil
	}
	e.frozen = true
	return r.pin(component)
}

// errChanged says that something is not what it was when it was first read.
var errChanged = errors.New("changed under the same version")

func changed(name, version string, was, is digest.Digest) error {
	return fmt.Errorf("component %s:%s %w: was %s, is %s: release a new version instead", name, version, errChanged, was, is)
}

// unchanged asks for the digest alone, which costs one request instead of three.
func (c Component) unchanged(ctx context.Context) bool {
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
		return "no repository: name one with --components"
	}
	return strings.Join(names, ", ")
}

// errNoVersion says that a source does not have the version at all; a part of it that is missing is something else.
var errNoVersion = errors.New("is not there")

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
	return component, nil
}

// open opens the repository of a component for reading, through the cache if there is one.
func (r *Reader) open(source Source, name string) (oras.ReadOnlyTarget, error) {
	repository, err := source.Open(name)
	if err == nil && r.Cached != nil {
		repository = r.Cached(repository)
	}
	return repository, err
}

// reference returns what to fetch: the tag, or, for a version that was read in an earlier life, its digest, which the
// cache may have. A registry that is away is no reason to doubt what is known.
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
		return "", changed(name, version, pinned, there)
	}
	return pinned.String(), nil
}
