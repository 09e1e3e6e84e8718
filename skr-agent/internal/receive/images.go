package receive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/carry"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Limits on images.
const (
	maxImageManifestBytes = 4 << 20 // what registries take
	maxImageDepth         = 4
	maxImageBlobs         = 10_000
)

// judgeImages takes the images that a publisher listed, and no others.
func (i Importer) judgeImages(ctx context.Context, file *carry.File, root trust.Root, found *judged, missing *lacking) error {
	list := bundle.Carried{}
	if found.list != nil {
		var err error
		if list, err = readList(ctx, file, root, *found.list); err != nil {
			return fmt.Errorf("list of images: %w", err)
		}
	}
	for _, r := range file.References() {
		isImage := strings.HasPrefix(r.Name, bundle.ImageRepository(""))
		listed := func(image bundle.CarriedImage) bool {
			return image.Name == r.Name && image.Digest == r.Descriptor.Digest
		}
		if isImage && !slices.ContainsFunc(list.Images, listed) {
			return &refusal.Error{Reason: refusal.Unsigned, Detail: fmt.Sprintf("image %s: is %s, which no publisher listed", r.Name, r.Descriptor.Digest)}
		}
	}
	found.imageBlobs = map[string][]ocispec.Descriptor{}
	for _, image := range list.Images {
		repository, _, _ := strings.Cut(image.Name, ":")
		target, err := i.reading(ctx, repository)
		if err != nil {
			return err
		}
		w := walk{importer: i, file: file, carried: file.Repository(repository), target: target, image: image, missing: missing}
		if err := w.visit(ctx, image.Descriptor(), maxImageDepth); err != nil {
			return fmt.Errorf("image %s: %w", image.Reference, err)
		}
		found.imageBlobs[image.Name] = w.order
		found.images = append(found.images, image)
	}
	return nil
}

func readList(ctx context.Context, file *carry.File, root trust.Root, r carry.Reference) (bundle.Carried, error) {
	repository, tag, _ := strings.Cut(r.Name, ":")
	from := file.Repository(repository)
	fetched, err := store.Fetch(ctx, from, tag)
	if err != nil {
		return bundle.Carried{}, err
	}
	d, err := bundle.VerifyCarried(fetched, root)
	if err != nil {
		return bundle.Carried{}, err
	}
	data, err := store.FetchBlob(ctx, from, d, bundle.MaxDocumentBytes)
	if err != nil {
		return bundle.Carried{}, malformed("%v", err)
	}
	list, err := bundle.DecodeCarried(data)
	if err != nil {
		return list, malformed("%v", err)
	}
	return list, nil
}

// walk goes down from one image and finds each blob in the file or at the target.
type walk struct {
	importer        Importer
	file            *carry.File
	carried, target oras.ReadOnlyTarget
	image           bundle.CarriedImage
	missing         *lacking
	// order holds what is in the file, what is pointed to before what points.
	order []ocispec.Descriptor
}

func (w *walk) visit(ctx context.Context, d ocispec.Descriptor, depth int) error {
	if depth == 0 || len(w.order) == maxImageBlobs {
		return &refusal.Error{Reason: refusal.TooLarge, Detail: fmt.Sprintf("is more than %d levels deep or has more than %d blobs", maxImageDepth, maxImageBlobs)}
	}
	from := w.carried
	size, inFile := w.file.Size(d.Digest)
	if inFile && size != d.Size {
		return &refusal.Error{Reason: refusal.WrongDigest, Detail: fmt.Sprintf("%s is %d bytes, its image says %d", d.Digest, size, d.Size)}
	}
	if !inFile {
		there, err := exists(ctx, w.target, d)
		if err != nil {
			return fmt.Errorf("look at %s: %w", w.importer.To, err)
		}
		if !there {
			w.missing.lines = append(w.missing.lines, fmt.Sprintf("image %s: %s of %d bytes", w.image.Reference, d.Digest, d.Size))
			return nil
		}
		from = w.target
	}
	if isManifest(d.MediaType) {
		data, err := store.FetchBlob(ctx, from, d, maxImageManifestBytes)
		if err != nil {
			return err
		}
		blob := bundle.NewBlob(d.MediaType, data)
		below, err := content.Successors(ctx, carriedBlob(blob), blob.Descriptor)
		if err != nil {
			return malformed("manifest %s: %v", d.Digest, err)
		}
		for _, next := range below {
			if err := w.visit(ctx, ocispec.Descriptor{MediaType: next.MediaType, Digest: next.Digest, Size: next.Size}, depth-1); err != nil {
				return err
			}
		}
	}
	if inFile {
		w.order = append(w.order, d)
	}
	return nil
}

func isManifest(mediaType string) bool {
	switch mediaType {
	case ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex,
		"application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json":
		return true
	}
	return false
}
