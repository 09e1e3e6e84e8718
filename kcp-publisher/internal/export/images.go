package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/distribution/reference"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// imageFinder finds images' blobs, and caches them by reference.
type imageFinder struct {
	registries *store.Registries
	platforms  []ocispec.Platform
	found      map[string]foundImage
}

type foundImage struct {
	image bundle.CarriedImage
	needs []blobNeed
}

// find returns an image's blobs. configured is true if an operator configured the image, and false if a
// module uses the image. Modules are not trusted, so find does not connect to internal addresses for their images.
func (f *imageFinder) find(ctx context.Context, text string, configured bool) (foundImage, error) {
	if known, ok := f.found[text]; ok {
		return known, nil
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return foundImage{}, err
	}
	open := f.registries.Foreign
	if configured {
		open = f.registries.Repository
	}
	repository, err := open(named.Name())
	if err != nil {
		return foundImage{}, err
	}
	tag, pinned := "latest", false
	if tagged, ok := named.(reference.Tagged); ok {
		tag = tagged.Tag()
	}
	at := tag
	if digested, ok := named.(reference.Digested); ok {
		at, pinned = digested.Digest().String(), true
		// Use the digest as the name in the file, because references with the same tag can have different digests.
		tag = digested.Digest().Algorithm().String() + "-" + digested.Digest().Encoded()[:32]
	}
	root, err := repository.Resolve(ctx, at)
	if err != nil {
		return foundImage{}, store.NotFound(err)
	}
	found := foundImage{}
	walk := airgap.ImageWalk{
		Locate: func(context.Context, ocispec.Descriptor) (store.Fetcher, error) { return repository, nil },
		Found: func(d ocispec.Descriptor, manifest []byte) {
			item := newItem(repository, d)
			if manifest != nil {
				item = airgap.InMemory(bundle.NewBlob(d.MediaType, manifest))
			}
			found.needs = append(found.needs, blobNeed{
				kind: KindImage, name: text, repository: bundle.ImageRepository(named.Name()), item: item,
			})
		},
	}
	// Do not filter an image with a pinned digest, because the digest covers all platforms.
	if !pinned && airgap.IsImageIndex(root.MediaType) && len(f.platforms) > 0 {
		index, err := filterPlatforms(ctx, repository, root, f.platforms)
		if err != nil {
			return foundImage{}, err
		}
		root = index.Descriptor
		walk.Locate = func(_ context.Context, d ocispec.Descriptor) (store.Fetcher, error) {
			if d.Digest == root.Digest {
				return inMemory(index), nil
			}
			return repository, nil
		}
	}
	if err := walk.Walk(ctx, root); err != nil {
		return foundImage{}, err
	}
	name := bundle.ImageRepository(named.Name()) + ":" + tag
	found.needs[len(found.needs)-1].reference = name
	found.image = bundle.CarriedImage{
		Reference: text, Name: name, MediaType: root.MediaType, Digest: root.Digest, SizeBytes: root.Size,
	}
	if f.found == nil {
		f.found = map[string]foundImage{}
	}
	f.found[text] = found
	return found, nil
}

// isPinned reports whether an image reference has a digest.
func isPinned(text string) bool {
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return false
	}
	_, pinned := named.(reference.Digested)
	return pinned
}

// filterPlatforms returns a copy of an image index with only the selected platforms.
func filterPlatforms(
	ctx context.Context, from store.Fetcher, d ocispec.Descriptor, platforms []ocispec.Platform,
) (bundle.Blob, error) {
	data, err := store.FetchBlob(ctx, from, d, airgap.MaxImageManifestBytes)
	if err != nil {
		return bundle.Blob{}, err
	}
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return bundle.Blob{}, fmt.Errorf("index %s: %w", d.Digest, err)
	}
	var offered []string
	index.Manifests = slices.DeleteFunc(index.Manifests, func(m ocispec.Descriptor) bool {
		if m.Platform == nil {
			return true
		}
		offered = append(offered, platformName(*m.Platform))
		return !slices.ContainsFunc(platforms, func(p ocispec.Platform) bool {
			return p.OS == m.Platform.OS && p.Architecture == m.Platform.Architecture &&
				(p.Variant == "" || p.Variant == m.Platform.Variant)
		})
	})
	if len(index.Manifests) == 0 {
		return bundle.Blob{}, fmt.Errorf("does not exist for the selected platforms, only for %q", offered)
	}
	if data, err = json.Marshal(index); err != nil {
		return bundle.Blob{}, err
	}
	return bundle.NewBlob(d.MediaType, data), nil
}

func inMemory(blob bundle.Blob) store.Fetcher {
	return store.FetcherFunc(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(blob.Bytes)), nil
	})
}

func platformName(p ocispec.Platform) string {
	name := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		name += "/" + p.Variant
	}
	return name
}

func (g *gatherer) addImageList(ctx context.Context) error {
	if len(g.images.found) == 0 {
		return nil
	}
	carried := map[string]bool{}
	for _, n := range g.needs {
		carried[n.name] = carried[n.name] || n.kind == KindImage
	}
	var images []bundle.CarriedImage
	for _, reference := range slices.Sorted(maps.Keys(g.images.found)) {
		if carried[reference] { // only bundles that the runtimes already have use the other images
			images = append(images, g.images.found[reference].image)
		}
	}
	list, err := bundle.NewCarried(images, g.carried)
	if err != nil || !g.Sign || len(images) == 0 {
		return err
	}
	manifest, err := g.signList(ctx, list)
	if err != nil {
		return err
	}
	tag := bundle.CarriedRepository + ":" + bundle.CarriedTag(list.Descriptor.Digest)
	for i, blob := range []bundle.Blob{manifest, list, bundle.EmptyBlob()} {
		n := blobNeed{kind: KindImage, name: "signed list", item: airgap.InMemory(blob)}
		if i == 0 {
			n.reference = tag
		}
		g.needs = append(g.needs, n)
	}
	return nil
}

// signList returns an image list's signed manifest. If the registry already contains a signed manifest for the same
// list, signList returns this manifest, so that a repeated export has the same bytes. If a different list was signed
// after that manifest, signList signs a new manifest, because an import would refuse the old manifest's lower sequence
// number.
func (g *gatherer) signList(ctx context.Context, list bundle.Blob) (bundle.Blob, error) {
	repository, err := g.Place.Repository(ctx, bundle.CarriedRepository)
	if err != nil {
		return bundle.Blob{}, err
	}
	tags := []string{bundle.CarriedTag(list.Descriptor.Digest)}
	for _, b := range g.carried {
		tags = append(tags, bundle.CarriedLastTag(b.Runtime))
	}
	before, err := g.existingManifest(ctx, repository, tags)
	if err != nil {
		return bundle.Blob{}, err
	}
	if before != nil {
		v, refused := bundle.VerifyCarried(*before, g.Keys.Root)
		if refused == nil && v.List.Digest == list.Descriptor.Digest && v.Predicate.Epoch == g.Keys.Root.Epoch &&
			g.Now.Before(v.Predicate.ExpiresAt) {
			return bundle.NewBlob(ocispec.MediaTypeImageManifest, before.Bytes), nil
		}
	}
	last, err := g.lastSequence(ctx, repository)
	if err != nil {
		return bundle.Blob{}, err
	}
	manifest, err := bundle.ComposeCarried(list, g.predicate(last), g.Keys.Signer)
	if err != nil {
		return bundle.Blob{}, err
	}
	for _, blob := range []bundle.Blob{bundle.EmptyBlob(), list} {
		if err := store.PushBlob(ctx, repository, blob); err != nil {
			return bundle.Blob{}, err
		}
	}
	for _, tag := range tags {
		if err := store.PushManifest(ctx, repository, manifest, tag); err != nil {
			return bundle.Blob{}, err
		}
	}
	return manifest, nil
}

// lastSequence returns the highest sequence of the last image lists for the runtimes in the file, or 0. Like an import,
// it ignores lists that are not signed by a current publisher key or belong to another epoch.
func (g *gatherer) lastSequence(ctx context.Context, repository store.Reader) (highest int64, err error) {
	for _, b := range g.carried {
		fetched, err := store.Fetch(ctx, repository, bundle.CarriedLastTag(b.Runtime))
		if err != nil {
			if err = unlessUnusable(err); err != nil {
				return 0, err
			}
			continue
		}
		last, refused := bundle.VerifyCarried(fetched, g.Keys.Root)
		if refused == nil && last.Predicate.Epoch == g.Keys.Root.Epoch {
			highest = max(highest, last.Predicate.Sequence)
		}
	}
	return highest, nil
}

func unlessUnusable(err error) error {
	if errors.Is(err, store.ErrNotFound) || refusal.Of(err) != nil {
		return nil
	}
	return err
}

// existingManifest returns the manifest that all of these tags refer to. It returns nil if a tag does not exist or the
// tags refer to different manifests.
func (g *gatherer) existingManifest(
	ctx context.Context, repository store.Reader, tags []string,
) (*bundle.Fetched, error) {
	found, err := store.Fetch(ctx, repository, tags[0])
	if err != nil {
		return nil, unlessUnusable(err)
	}
	for _, tag := range tags[1:] {
		last, err := repository.Resolve(ctx, tag)
		if err != nil {
			return nil, unlessUnusable(store.NotFound(err))
		}
		if last.Digest != digest.FromBytes(found.Bytes) {
			return nil, nil
		}
	}
	return &found, nil
}

// predicate returns the content to sign for the image list. Its sequence number is higher than last, and at least that
// of each bundle in the file. The list expires as soon as the first of these bundles does.
func (g *gatherer) predicate(last int64) bundle.CarriedPredicate {
	p := bundle.CarriedPredicate{
		Epoch: g.Keys.Root.Epoch, Sequence: bundle.NextSequence(last, g.Now),
		IssuedAt: g.Now.UTC().Truncate(time.Second),
	}
	for _, s := range g.statements {
		p.Sequence = max(p.Sequence, s.Sequence)
		if p.ExpiresAt.IsZero() || s.ExpiresAt.Before(p.ExpiresAt) {
			p.ExpiresAt = s.ExpiresAt
		}
	}
	return p
}
