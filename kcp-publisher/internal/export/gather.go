package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// Options configures an export.
type Options struct {
	Place      store.Store
	Registries *store.Registries
	Keys       publish.Keys
	Runtimes   []string
	// Since maps a runtime to its applied bundle. The export omits the blobs of that bundle.
	Since map[string]digest.Digest
	// Images includes the container images. Platforms selects the platforms of images that are referenced by tag.
	Images    bool
	Platforms []ocispec.Platform
	// Rendering finds the images that components do not list, or is nil.
	Rendering Rendering
	// UsedCache stores the images that Rendering finds.
	UsedCache UsedCache
	// KubernetesVersion is the version for rendering charts. It defaults to the version that each runtime reported.
	KubernetesVersion string
	// Offers includes the modules that runtimes with autonomy can choose.
	Offers bool
	// Sign signs the list of images. Agents refuse an unsigned list.
	Sign bool
	// Now is the time of issue of the image list.
	Now time.Time
}

// gathering is the state of one export.
type gathering struct {
	Options
	needs  []need
	known  map[string]map[place]bool
	images *imageFinder
	used   usedImages
	roots  map[string]int64 // newest version of the root of trust that each runtime has
	// modules are the modules with exported images, by name and version.
	modules map[string]*ModuleImages
	// carried contains the bundles in the exported file, and statements their predicates.
	carried    []bundle.CarriedBundle
	statements []bundle.Predicate
}

// Gather reads the newest bundles of the runtimes and finds all referenced blobs. It does not read contents and image
// layers.
func Gather(ctx context.Context, options Options) (Parcel, error) {
	g := &gathering{
		Options: options,
		known:   map[string]map[place]bool{},
		images:  &imageFinder{registries: options.Registries, platforms: options.Platforms},
		used:    usedImages{},
		roots:   map[string]int64{},
		modules: map[string]*ModuleImages{},
	}
	for _, runtime := range options.Runtimes {
		if err := g.runtime(ctx, runtime); err != nil {
			return Parcel{}, fmt.Errorf("runtime %s: %w", runtime, err)
		}
	}
	if err := g.trust(ctx); err != nil {
		return Parcel{}, fmt.Errorf("root of trust: %w", err)
	}
	if err := g.list(ctx); err != nil {
		return Parcel{}, fmt.Errorf("list of images: %w", err)
	}
	parcel := selected(g.needs, g.known)
	for _, key := range slices.Sorted(maps.Keys(g.modules)) {
		m := *g.modules[key]
		parcel.Modules = append(parcel.Modules, m)
		if !m.Rendered && m.Listed == 0 {
			parcel.Unlisted = append(parcel.Unlisted, m.String())
		}
	}
	return parcel, nil
}

func (g *gathering) runtime(ctx context.Context, runtime string) error {
	if since, ok := g.Since[runtime]; ok {
		base, err := g.bundle(ctx, runtime, since.String())
		if errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("bundle %s is no longer in the registry: export without --since", since)
		}
		if err != nil {
			return fmt.Errorf("--since: %w", err)
		}
		needs, err := g.needsOf(ctx, runtime, base, false)
		if err != nil {
			return fmt.Errorf("--since: %w", err)
		}
		g.known[runtime] = map[place]bool{}
		for _, n := range needs {
			g.known[runtime][n.place()] = true
		}
		g.roots[runtime] = base.Statement.Predicate.RootVersion
	}
	newest, err := g.bundle(ctx, runtime, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("no bundle is published in %s: %w", g.Place.Name(bundle.DesiredRepository(runtime)), err)
	}
	if err != nil {
		return err
	}
	g.recordModules(newest)
	needs, err := g.needsOf(ctx, runtime, newest, true)
	if err != nil {
		return err
	}
	g.carried = append(g.carried, bundle.CarriedBundle{Runtime: runtime, Digest: newest.manifest.Descriptor.Digest})
	g.statements = append(g.statements, newest.Statement.Predicate)
	needs[0].always = true
	needs[0].reference = bundle.DesiredRepository(runtime) + ":" + bundle.TagDesired
	g.needs = append(g.needs, needs...)
	return nil
}

func (g *gathering) recordModules(b published) {
	if !g.Images {
		return
	}
	for _, m := range g.exportedModules(b) {
		images := ModuleImages{
			Module:   m.Module,
			Version:  m.Version,
			Rendered: g.Rendering != nil,
			Listed:   len(m.Spec.LocalizedImages),
		}
		if g.modules[images.String()] == nil { // another runtime has the same version
			g.modules[images.String()] = &images
		}
	}
}

// exportedModules returns the modules whose content and images are exported. For other modules, only the proof of
// release is exported.
func (g *gathering) exportedModules(b published) []bundle.Manifest {
	modules := b.State.All()
	if g.Offers {
		modules = slices.Concat(modules, b.State.Offers)
	}
	return modules
}

// published is a published bundle with the bytes of its manifest.
type published struct {
	bundle.Bundle
	manifest bundle.Blob
}

func (g *gathering) bundle(ctx context.Context, runtime, reference string) (published, error) {
	repository, err := g.Place.Reading(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return published{}, err
	}
	verified, manifest, err := g.verified(ctx, repository, runtime, reference)
	if err != nil {
		return published{}, err
	}
	opened, err := store.FetchBundle(ctx, repository, verified)
	return published{opened, manifest}, err
}

func (g *gathering) verified(
	ctx context.Context, repository store.Reader, runtime, reference string,
) (bundle.Verified, bundle.Blob, error) {
	fetched, err := store.Fetch(ctx, repository, reference)
	if err != nil {
		return bundle.Verified{}, bundle.Blob{}, err
	}
	verified, err := bundle.Adopt(fetched, runtime, g.Keys.Root, g.Keys.Former...)
	return verified, bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes), err
}

// needsOf returns the blobs that a runtime needs for a bundle, the bundle's manifest first. It renders only the newest
// bundle, because the registry may not have the contents of earlier bundles anymore.
func (g *gathering) needsOf(ctx context.Context, runtime string, b published, newest bool) ([]need, error) {
	repository, err := g.Place.Reading(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s, sequence %d", runtime, b.Statement.Predicate.Sequence)
	own := need{
		runtime:    runtime,
		kind:       KindBundle,
		name:       name,
		repository: bundle.DesiredRepository(runtime),
		item:       airgap.InMemory(b.manifest),
	}
	needs := []need{own}
	for _, d := range []ocispec.Descriptor{b.Config, b.Catalog} {
		own.item = itemFrom(repository, d)
		needs = append(needs, own)
	}
	for _, m := range b.State.All() {
		if needs, err = g.module(ctx, needs, runtime, m, true); err != nil {
			return nil, err
		}
	}
	for _, m := range b.State.Offers { // with release keys, the agent requires the proof of release of each offer
		if needs, err = g.module(ctx, needs, runtime, m, g.Offers); err != nil {
			return nil, err
		}
	}
	if g.Images && g.Rendering != nil && newest {
		if needs, err = g.rendered(ctx, needs, runtime, b); err != nil {
			return nil, err
		}
	}
	if agent := b.State.Settings.Agent; g.Images && agent != "" {
		return g.image(ctx, needs, runtime, agent, true)
	}
	return needs, nil
}

// If whole is false, only the proof of release is added.
func (g *gathering) module(
	ctx context.Context, needs []need, runtime string, m bundle.Manifest, whole bool,
) ([]need, error) {
	wrapped := func(err error) error { return fmt.Errorf("module %s: %w", m.Module, err) }
	for _, c := range m.Evidence() {
		blobs, err := g.withHolder(ctx, runtime, KindRelease, m.Module+" "+m.Version, c)
		if err != nil {
			return nil, wrapped(err)
		}
		needs = append(needs, blobs...)
	}
	if !whole {
		return needs, nil
	}
	for _, c := range m.Content {
		blobs, err := g.withHolder(ctx, runtime, KindContent, fmt.Sprintf("%s %s, %s", m.Module, m.Version, c.Name), c)
		if err != nil {
			return nil, wrapped(err)
		}
		needs = append(needs, blobs...)
	}
	if !g.Images {
		return needs, nil
	}
	for _, reference := range m.Spec.LocalizedImages {
		var err error
		if needs, err = g.image(ctx, needs, runtime, reference, false); err != nil {
			return nil, wrapped(err)
		}
	}
	return needs, nil
}

// configured is true if an operator configured the image, and false if a module names it.
func (g *gathering) image(
	ctx context.Context, needs []need, runtime, reference string, configured bool,
) ([]need, error) {
	found, err := g.images.find(ctx, reference, configured)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", reference, err)
	}
	for _, n := range found.needs {
		n.runtime = runtime
		needs = append(needs, n)
	}
	return needs, nil
}

// withHolder returns a content with the manifest that protects it from garbage collection.
func (g *gathering) withHolder(ctx context.Context, runtime, kind, name string, c bundle.Content) ([]need, error) {
	from, err := store.Locate(ctx, g.Place, g.Registries, c.Repository, nil)
	if err != nil {
		return nil, err
	}
	blob := c.Descriptor()
	holder, tag, err := store.ContentHolder(blob)
	if err != nil {
		return nil, err
	}
	n := need{
		runtime:    runtime,
		kind:       kind,
		name:       name,
		repository: bundle.ContentRepository,
		item:       itemFrom(from, blob),
	}
	held, empty := n, n
	held.item, held.reference = airgap.InMemory(holder), bundle.ContentRepository+":"+tag
	empty.item = airgap.InMemory(bundle.EmptyBlob())
	return []need{n, held, empty}, nil
}

func itemFrom(from store.Reader, d ocispec.Descriptor) airgap.Item {
	return airgap.Item{
		Descriptor: d,
		Open:       func(ctx context.Context) (io.ReadCloser, error) { return from.Fetch(ctx, d) },
	}
}

// trust adds the versions of the root of trust that a runtime may not have.
func (g *gathering) trust(ctx context.Context) error {
	first := g.Keys.Root.Version
	for _, runtime := range g.Runtimes {
		first = min(first, g.roots[runtime])
	}
	repository, err := g.Place.Reading(ctx, bundle.TrustRepository)
	if err != nil {
		return err
	}
	for version := first + 1; version <= g.Keys.Root.Version; version++ {
		tag := bundle.RootTag(version)
		fetched, err := store.Fetch(ctx, repository, tag)
		if errors.Is(err, store.ErrNotFound) {
			// The registry does not have versions this old. Runtimes that need them must pin a newer root.
			continue
		}
		if err != nil {
			return err
		}
		data, _, err := store.ReadRoot(ctx, repository, version)
		if err != nil {
			return err
		}
		for i, blob := range []bundle.Blob{
			bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes), bundle.NewBlob(bundle.MediaTypeRoot, data),
			bundle.EmptyBlob(),
		} {
			n := need{kind: KindRoot, name: fmt.Sprintf("version %d", version), item: airgap.InMemory(blob)}
			if i == 0 {
				n.reference = bundle.TrustRepository + ":" + tag
			}
			g.needs = append(g.needs, n)
		}
	}
	return nil
}
