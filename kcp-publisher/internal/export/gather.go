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
	// Since maps a runtime's ID to the digest of the bundle that the runtime has applied. The export omits that
	// bundle's blobs.
	Since map[string]digest.Digest
	// If Images is true, the export includes container images. Platforms selects the platforms for images that are
	// referenced by tag. Images that are referenced by a digest are exported for all platforms.
	Images    bool
	Platforms []ocispec.Platform
	// Rendering finds the images that a module uses but its component does not list. If it is nil, these images are
	// omitted.
	Rendering Rendering
	// MaxRenderings limits the concurrent calls of Rendering, because each call needs up to 512 MiB of memory. The
	// default is 4.
	MaxRenderings int
	// UsedCache caches the images that Rendering finds.
	UsedCache UsedCache
	// KubernetesVersion is the Kubernetes version for rendering charts. If it is empty, the version in each runtime's
	// report is used.
	KubernetesVersion string
	// If Offers is true, the export also includes the modules in the bundles' offers.
	Offers bool
	// If Sign is true, the list of images is signed. Agents refuse an unsigned list.
	Sign bool
	// Now is the issue time for the signed image list.
	Now time.Time
}

type gatherer struct {
	Options
	needs      []blobNeed
	knownBlobs map[string]map[blobPlace]bool
	images     *imageFinder
	usedImages usedImages
	roots      map[string]int64 // newest root of trust version that each runtime already has
	// modules contains the modules with exported images, by name and version.
	modules map[string]*ModuleImages
	// carried contains the bundles in the exported file, and statements contains these bundles' signed predicates.
	carried    []bundle.CarriedBundle
	statements []bundle.Predicate
}

// Gather reads the runtimes' newest bundles and finds all blobs that the bundles refer to. It does not read module
// content and image layers.
func Gather(ctx context.Context, options Options) (Parcel, error) {
	g := &gatherer{
		Options:    options,
		knownBlobs: map[string]map[blobPlace]bool{},
		images:     &imageFinder{registries: options.Registries, platforms: options.Platforms},
		roots:      map[string]int64{},
		modules:    map[string]*ModuleImages{},
	}
	for _, runtime := range options.Runtimes {
		if err := g.addRuntime(ctx, runtime); err != nil {
			return Parcel{}, fmt.Errorf("runtime %s: %w", runtime, err)
		}
	}
	if err := g.addRoots(ctx); err != nil {
		return Parcel{}, fmt.Errorf("root of trust: %w", err)
	}
	if err := g.addImageList(ctx); err != nil {
		return Parcel{}, fmt.Errorf("list of images: %w", err)
	}
	parcel := selectBlobs(g.needs, g.knownBlobs)
	for _, key := range slices.Sorted(maps.Keys(g.modules)) {
		m := *g.modules[key]
		parcel.Modules = append(parcel.Modules, m)
		if !m.Rendered && m.Listed == 0 {
			parcel.Unlisted = append(parcel.Unlisted, m.String())
		}
	}
	return parcel, nil
}

func (g *gatherer) addRuntime(ctx context.Context, runtime string) error {
	if since, ok := g.Since[runtime]; ok {
		base, err := g.readBundle(ctx, runtime, since.String())
		if errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("bundle %s was not found in the registry: export without --since", since)
		}
		if err != nil {
			return fmt.Errorf("--since: %w", err)
		}
		needs, err := g.listNeeds(ctx, target{runtime: runtime, isBase: true}, base)
		if err != nil {
			return fmt.Errorf("--since: %w", err)
		}
		g.knownBlobs[runtime] = map[blobPlace]bool{}
		for _, n := range needs {
			g.knownBlobs[runtime][n.place()] = true
		}
		g.roots[runtime] = base.Statement.Predicate.RootVersion
	}
	newest, err := g.readBundle(ctx, runtime, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("no bundle is published in %s: %w", g.Place.Name(bundle.DesiredRepository(runtime)), err)
	}
	if err != nil {
		return err
	}
	if expires := newest.Statement.Predicate.ExpiresAt; !g.Now.Before(expires) {
		return fmt.Errorf("the newest bundle expired at %s, and agents refuse expired bundles: check that the "+
			"publisher runs and is not suspended, and export again", expires.Format(time.RFC3339))
	}
	g.recordModules(newest)
	needs, err := g.listNeeds(ctx, target{runtime: runtime}, newest)
	if err != nil {
		return err
	}
	g.carried = append(g.carried, bundle.CarriedBundle{Runtime: runtime, Digest: newest.manifest.Descriptor.Digest})
	g.statements = append(g.statements, newest.Statement.Predicate)
	needs[0].isRequired = true
	needs[0].reference = bundle.DesiredRepository(runtime) + ":" + bundle.TagDesired
	g.needs = append(g.needs, needs...)
	return nil
}

func (g *gatherer) recordModules(b publishedBundle) {
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
		if g.modules[images.String()] == nil { // unless another runtime has already added the same version
			g.modules[images.String()] = &images
		}
	}
}

// exportedModules returns the modules that are exported with content and images. For all other modules in the bundle,
// an export contains only the documents that prove their release.
func (g *gatherer) exportedModules(b publishedBundle) []bundle.Manifest {
	modules := b.State.All()
	if g.Offers {
		modules = slices.Concat(modules, b.State.Offers)
	}
	return modules
}

// publishedBundle is a published bundle with the bytes of its manifest.
type publishedBundle struct {
	bundle.Bundle
	manifest bundle.Blob
}

func (g *gatherer) readBundle(ctx context.Context, runtime, reference string) (publishedBundle, error) {
	repository, err := g.Place.Reading(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return publishedBundle{}, err
	}
	verified, manifest, err := g.readVerified(ctx, repository, runtime, reference)
	if err != nil {
		return publishedBundle{}, err
	}
	opened, err := store.FetchBundle(ctx, repository, verified)
	return publishedBundle{opened, manifest}, err
}

func (g *gatherer) readVerified(
	ctx context.Context, repository store.Reader, runtime, reference string,
) (bundle.Verified, bundle.Blob, error) {
	fetched, err := store.Fetch(ctx, repository, reference)
	if err != nil {
		return bundle.Verified{}, bundle.Blob{}, err
	}
	verified, err := bundle.Adopt(fetched, runtime, g.Keys.Root, g.Keys.FormerRoots...)
	return verified, bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes), err
}

// target identifies the bundle whose blobs are listed: a runtime's newest bundle, or the bundle that the runtime has
// applied, which is the base of an incremental export.
type target struct {
	runtime string
	isBase  bool
}

// listNeeds returns the blobs that a runtime needs for a bundle, the bundle's manifest first. It renders modules only
// for the newest bundle, because earlier bundles' content may have been deleted from the registry.
func (g *gatherer) listNeeds(ctx context.Context, t target, b publishedBundle) ([]blobNeed, error) {
	repository, err := g.Place.Reading(ctx, bundle.DesiredRepository(t.runtime))
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s, sequence %d", t.runtime, b.Statement.Predicate.Sequence)
	own := blobNeed{
		runtime:    t.runtime,
		kind:       KindBundle,
		name:       name,
		repository: bundle.DesiredRepository(t.runtime),
		item:       airgap.InMemory(b.manifest),
	}
	needs := []blobNeed{own}
	for _, d := range []ocispec.Descriptor{b.Config, b.Catalog} {
		own.item = newItem(repository, d)
		needs = append(needs, own)
	}
	for _, m := range b.State.All() {
		if needs, err = g.addModule(ctx, needs, t, m, true); err != nil {
			return nil, err
		}
	}
	// If the root of trust has release keys, the agent requires each offered module's release documents. The base does not
	// include the content of offers, because a runtime can apply a bundle without this content.
	for _, m := range b.State.Offers {
		if needs, err = g.addModule(ctx, needs, t, m, g.Offers && !t.isBase); err != nil {
			return nil, err
		}
	}
	if g.Images && g.Rendering != nil && !t.isBase {
		if needs, err = g.addRendered(ctx, needs, t.runtime, b); err != nil {
			return nil, err
		}
	}
	if agent := b.State.Settings.Agent; g.Images && agent != "" {
		return g.addImage(ctx, needs, t, agent, true)
	}
	return needs, nil
}

// addModule adds a module's blobs. If whole is false, it adds only the documents that prove the module's release.
func (g *gatherer) addModule(
	ctx context.Context, needs []blobNeed, t target, m bundle.Manifest, whole bool,
) ([]blobNeed, error) {
	wrapped := func(err error) error { return fmt.Errorf("module %s: %w", m.Module, err) }
	for _, c := range m.Evidence() {
		blobs, err := g.withHolder(ctx, t.runtime, KindRelease, m.Module+" "+m.Version, c)
		if err != nil {
			return nil, wrapped(err)
		}
		needs = append(needs, blobs...)
	}
	if !whole {
		return needs, nil
	}
	for _, c := range m.Content {
		blobs, err := g.withHolder(ctx, t.runtime, KindContent, fmt.Sprintf("%s %s, %s", m.Module, m.Version, c.Name), c)
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
		if needs, err = g.addImage(ctx, needs, t, reference, false); err != nil {
			return nil, wrapped(err)
		}
	}
	return needs, nil
}

// addImage adds an image's blobs. configured is true if an operator configured the image, and false if a
// module uses the image.
//
// For a base, addImage adds only images with a known digest, because a tag can refer to another image than when the
// runtime pulled it. It skips deleted images, because the newest bundle might not use them.
func (g *gatherer) addImage(
	ctx context.Context, needs []blobNeed, t target, reference string, configured bool,
) ([]blobNeed, error) {
	if t.isBase && !isPinned(reference) {
		return needs, nil
	}
	found, err := g.images.find(ctx, reference, configured)
	if t.isBase && errors.Is(store.NotFound(err), store.ErrNotFound) {
		return needs, nil
	}
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", reference, err)
	}
	for _, n := range found.needs {
		n.runtime = t.runtime
		needs = append(needs, n)
	}
	return needs, nil
}

// withHolder returns a content blob, together with the manifest that protects the blob from the registry's garbage
// collection.
func (g *gatherer) withHolder(ctx context.Context, runtime, kind, name string, c bundle.Content) ([]blobNeed, error) {
	from, err := store.Locate(ctx, g.Place, g.Registries, c.Repository, nil)
	if err != nil {
		return nil, err
	}
	blob := c.Descriptor()
	holder, tag, err := store.ContentHolder(blob)
	if err != nil {
		return nil, err
	}
	n := blobNeed{
		runtime:    runtime,
		kind:       kind,
		name:       name,
		repository: bundle.ContentRepository,
		item:       newItem(from, blob),
	}
	held, empty := n, n
	held.item, held.reference = airgap.InMemory(holder), bundle.ContentRepository+":"+tag
	empty.item = airgap.InMemory(bundle.EmptyBlob())
	return []blobNeed{n, held, empty}, nil
}

func newItem(from store.Reader, d ocispec.Descriptor) airgap.Item {
	return airgap.Item{
		Descriptor: d,
		Open:       func(ctx context.Context) (io.ReadCloser, error) { return from.Fetch(ctx, d) },
	}
}

// addRoots adds the root of trust versions that a runtime might not have.
func (g *gatherer) addRoots(ctx context.Context) error {
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
			// If the registry lacks this old version, agents that need it must be configured with a newer root of
			// trust.
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
			n := blobNeed{kind: KindRoot, name: fmt.Sprintf("version %d", version), item: airgap.InMemory(blob)}
			if i == 0 {
				n.reference = bundle.TrustRepository + ":" + tag
			}
			g.needs = append(g.needs, n)
		}
	}
	return nil
}
