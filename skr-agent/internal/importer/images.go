package importer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// verifyImages verifies the signed list of images in a file. It refuses a file with an image that is not in the list.
func (i Importer) verifyImages(
	ctx context.Context, file *airgap.File, root trust.Root, found *verifiedContent, missing *missingBlobs,
) error {
	list := bundle.Carried{}
	if found.list != nil {
		verified, read, err := readImageList(ctx, file, root, *found.list)
		if err == nil {
			err = i.checkList(ctx, verified.Predicate, read, root, found)
		}
		if err != nil {
			return fmt.Errorf("list of images: %w", err)
		}
		list, found.listPredicate = read, verified.Predicate
	}
	for _, r := range file.References() {
		isImage := strings.HasPrefix(r.Name, bundle.ImageRepository(""))
		listed := func(image bundle.CarriedImage) bool {
			return image.Name == r.Name && image.Digest == r.Descriptor.Digest
		}
		if isImage && !slices.ContainsFunc(list.Images, listed) {
			return &refusal.Error{
				Reason: refusal.Unsigned,
				Detail: fmt.Sprintf("image %s: digest %s is not in a signed list of images", r.Name,
					r.Descriptor.Digest),
			}
		}
	}
	found.imageBlobs = map[string][]ocispec.Descriptor{}
	for _, image := range list.Images {
		blobs, err := i.imageBlobs(ctx, file, image, missing)
		if err != nil {
			return fmt.Errorf("image %s: %w", image.Reference, err)
		}
		found.imageBlobs[image.Name] = blobs
		found.images = append(found.images, image)
	}
	return i.findNewerImages(ctx, root, found)
}

func readImageList(
	ctx context.Context, file *airgap.File, root trust.Root, r airgap.Reference,
) (bundle.VerifiedCarried, bundle.Carried, error) {
	var none bundle.VerifiedCarried
	repository, tag, _ := strings.Cut(r.Name, ":")
	from := file.Repository(repository)
	fetched, err := store.Fetch(ctx, from, tag)
	if err != nil {
		return none, bundle.Carried{}, err
	}
	verified, err := bundle.VerifyCarried(fetched, root)
	if err != nil {
		return none, bundle.Carried{}, err
	}
	data, err := store.FetchBlob(ctx, from, verified.List, bundle.MaxDocumentBytes)
	if err != nil {
		return none, bundle.Carried{}, refuseMalformed("%v", err)
	}
	list, err := bundle.DecodeCarried(data)
	if err != nil {
		return none, list, refuseMalformed("%v", err)
	}
	return verified, list, nil
}

// imageBlobs returns an image's blobs that the file contains. Each blob comes before the manifests that refer to it. If
// a blob exists neither in the file nor at the target, imageBlobs adds it to missing.
func (i Importer) imageBlobs(
	ctx context.Context, file *airgap.File, image bundle.CarriedImage, missing *missingBlobs,
) ([]ocispec.Descriptor, error) {
	repository, _, _ := strings.Cut(image.Name, ":")
	carried := file.Repository(repository)
	target, err := i.openRepository(ctx, repository)
	if err != nil {
		return nil, err
	}
	var found []ocispec.Descriptor
	walk := airgap.ImageWalk{
		Locate: func(ctx context.Context, d ocispec.Descriptor) (store.Fetcher, error) {
			size, inFile := file.Size(d.Digest)
			if inFile && size != d.Size {
				return nil,
					refusal.New(refusal.WrongDigest, "%s is %d bytes, but its image specifies %d", d.Digest, size,
						d.Size)
			}
			if inFile {
				return carried, nil
			}
			there, err := exists(ctx, target, d)
			if err != nil {
				return nil, fmt.Errorf("check for blob %s in %s: %w", d.Digest, i.Target, err)
			}
			if there {
				return target, nil
			}
			missing.lines = append(missing.lines,
				fmt.Sprintf("image %s: %s of %d bytes", image.Reference, d.Digest, d.Size))
			return nil, nil
		},
		Found: func(d ocispec.Descriptor, _ []byte) {
			if _, inFile := file.Size(d.Digest); inFile {
				found = append(found, d)
			}
		},
	}
	return found, walk.Walk(ctx, image.Descriptor())
}
