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

	"github.com/distribution/reference"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/carry"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Limits on images, which come from anywhere.
const (
	maxImageManifestBytes = 4 << 20 // what registries take
	maxImageBlobs         = 10_000
)

const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// imageFinder finds images with all their blobs, each once.
type imageFinder struct {
	registries *store.Registries
	platforms  []ocispec.Platform
	found      map[string]foundImage
}

type foundImage struct {
	image bundle.CarriedImage
	needs []need
}

func (f *imageFinder) find(ctx context.Context, text string) (foundImage, error) {
	if known, ok := f.found[text]; ok {
		return known, nil
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return foundImage{}, err
	}
	repository, err := f.registries.Repository(named.Name())
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
		if _, ok := named.(reference.Tagged); !ok {
			tag = digested.Digest().Algorithm().String() + "-" + digested.Digest().Encoded()[:32]
		}
	}
	root, err := repository.Resolve(ctx, at)
	if err != nil {
		return foundImage{}, store.NotFound(err)
	}
	walk := &walk{from: repository, name: text, to: bundle.ImageRepository(named.Name())}
	if !pinned && isIndex(root.MediaType) && len(f.platforms) > 0 {
		err = walk.filtered(ctx, root, f.platforms)
	} else {
		err = walk.whole(ctx, root) // a digest covers all platforms
	}
	if err != nil {
		return foundImage{}, err
	}
	top := walk.needs[0].item.Descriptor
	name := bundle.ImageRepository(named.Name()) + ":" + tag
	walk.needs[0].reference = name
	result := foundImage{
		bundle.CarriedImage{Reference: text, Name: name, MediaType: top.MediaType, Digest: top.Digest, SizeBytes: top.Size}, walk.needs,
	}
	if f.found == nil {
		f.found = map[string]foundImage{}
	}
	f.found[text] = result
	return result, nil
}

func isIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == dockerList
}

// walk collects the blobs of one image, the one that is named first.
type walk struct {
	from  oras.ReadOnlyTarget
	name  string
	to    string
	needs []need
}

func (w *walk) add(item carry.Item) error {
	if len(w.needs) == maxImageBlobs {
		return fmt.Errorf("more than %d blobs", maxImageBlobs)
	}
	w.needs = append(w.needs, need{kind: KindImage, name: w.name, repository: w.to, item: item})
	return nil
}

func (w *walk) whole(ctx context.Context, d ocispec.Descriptor) error {
	if !isIndex(d.MediaType) && d.MediaType != ocispec.MediaTypeImageManifest && d.MediaType != dockerManifest {
		return w.add(itemFrom(w.from, plain(d)))
	}
	data, err := store.FetchBlob(ctx, w.from, d, maxImageManifestBytes)
	if err != nil {
		return err
	}
	blob := bundle.NewBlob(d.MediaType, data)
	if err := w.add(carry.InMemory(blob)); err != nil {
		return err
	}
	from := content.FetcherFunc(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	})
	below, err := content.Successors(ctx, from, blob.Descriptor)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	for _, next := range below {
		if err := w.whole(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// filtered makes an index of only the platforms asked for.
func (w *walk) filtered(ctx context.Context, d ocispec.Descriptor, platforms []ocispec.Platform) error {
	data, err := store.FetchBlob(ctx, w.from, d, maxImageManifestBytes)
	if err != nil {
		return err
	}
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return fmt.Errorf("index %s: %w", d.Digest, err)
	}
	var offered []string
	index.Manifests = slices.DeleteFunc(index.Manifests, func(m ocispec.Descriptor) bool {
		if m.Platform == nil {
			return true
		}
		offered = append(offered, platformName(*m.Platform))
		return !slices.ContainsFunc(platforms, func(p ocispec.Platform) bool {
			return p.OS == m.Platform.OS && p.Architecture == m.Platform.Architecture && (p.Variant == "" || p.Variant == m.Platform.Variant)
		})
	})
	if len(index.Manifests) == 0 {
		return fmt.Errorf("is there for none of the platforms asked for, only for %q", offered)
	}
	if data, err = json.Marshal(index); err != nil {
		return err
	}
	if err := w.add(carry.InMemory(bundle.NewBlob(d.MediaType, data))); err != nil {
		return err
	}
	for _, m := range index.Manifests {
		if err := w.whole(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func platformName(p ocispec.Platform) string {
	name := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		name += "/" + p.Variant
	}
	return name
}

func plain(d ocispec.Descriptor) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}
}

// list adds the signed list of the images. One that was signed before is taken again: a signature has other bytes every time.
func (g *gathering) list(ctx context.Context) error {
	if len(g.images.found) == 0 {
		return nil
	}
	carried := map[string]bool{}
	for _, n := range g.needs {
		carried[n.name] = carried[n.name] || n.kind == KindImage
	}
	var images []bundle.CarriedImage
	for _, reference := range slices.Sorted(maps.Keys(g.images.found)) {
		if carried[reference] { // others belong to the bundles that runtimes had before
			images = append(images, g.images.found[reference].image)
		}
	}
	list, err := bundle.NewCarried(images)
	if err != nil || !g.Sign || len(images) == 0 {
		return err
	}
	manifest, err := g.signed(ctx, list)
	if err != nil {
		return err
	}
	tag := bundle.CarriedRepository + ":" + bundle.CarriedTag(list.Descriptor.Digest)
	for i, blob := range []bundle.Blob{manifest, list, bundle.EmptyBlob()} {
		n := need{kind: KindImage, name: "signed list", item: carry.InMemory(blob)}
		if i == 0 {
			n.reference = tag
		}
		g.needs = append(g.needs, n)
	}
	return nil
}

func (g *gathering) signed(ctx context.Context, list bundle.Blob) (bundle.Blob, error) {
	repository, err := g.Place.Repository(ctx, bundle.CarriedRepository)
	if err != nil {
		return bundle.Blob{}, err
	}
	tag := bundle.CarriedTag(list.Descriptor.Digest)
	before, err := store.Fetch(ctx, repository, tag)
	if err == nil {
		if d, refused := bundle.VerifyCarried(before, g.Keys.Root); refused == nil && d.Digest == list.Descriptor.Digest {
			return bundle.NewBlob(ocispec.MediaTypeImageManifest, before.Bytes), nil
		}
	} else if !errors.Is(err, store.ErrNotFound) {
		return bundle.Blob{}, err
	}
	manifest, err := bundle.ComposeCarried(list, g.Keys.Signer)
	if err != nil {
		return bundle.Blob{}, err
	}
	for _, blob := range []bundle.Blob{bundle.EmptyBlob(), list} {
		if err := store.PushBlob(ctx, repository, blob); err != nil {
			return bundle.Blob{}, err
		}
	}
	return manifest, store.PushManifest(ctx, repository, manifest, tag)
}
