package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// checkList checks that the signed list of images is for the bundles in the file, and that it is not older than the
// last imported list.
func (i Importer) checkList(
	ctx context.Context, predicate bundle.CarriedPredicate, list bundle.Carried, root trust.Root, found *verifiedContent,
) error {
	now := i.Now()
	var with []bundle.CarriedBundle
	var last *bundle.CarriedPredicate
	for _, b := range found.bundles {
		predicate := b.Statement.Predicate
		with = append(with, bundle.CarriedBundle{Runtime: predicate.Audience.Runtime, Digest: b.Digest})
		if predicate.IssuedAt.After(now) { // a future time means that the local clock is behind the publisher's
			now = predicate.IssuedAt
		}
		before, err := i.lastList(ctx, root, bundle.CarriedLastTag(predicate.Audience.Runtime))
		if err != nil {
			return err
		}
		if before != nil && (last == nil || last.IsBefore(before.Predicate)) {
			last = &before.Predicate
		}
	}
	return bundle.CheckCarried(predicate, list, with, last, root.Epoch, now, i.ClockSkew)
}

// lastList returns the last imported list, or nil if no list was imported. It ignores a list that was not signed by
// this fleet's publisher.
func (i Importer) lastList(ctx context.Context, root trust.Root, tag string) (*bundle.VerifiedCarried, error) {
	target, err := i.openRepository(ctx, bundle.CarriedRepository)
	if err != nil || target == nil {
		return nil, err
	}
	fetched, err := store.Fetch(ctx, target, tag)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the last imported list of images in %s: %w", i.Target, err)
	}
	verified, err := bundle.VerifyCarried(fetched, root)
	if err != nil {
		return nil, nil //nolint:nilerr // the list has no valid signature, so ignore it
	}
	return &verified, nil
}

// findNewerImages finds images whose tag must not change, because a newer imported file for another runtime contains
// them.
func (i Importer) findNewerImages(ctx context.Context, root trust.Root, found *verifiedContent) error {
	moving := map[string]bool{}
	for _, image := range found.images {
		repository, tag, _ := strings.Cut(image.Name, ":")
		target, err := i.openRepository(ctx, repository)
		if err != nil {
			return err
		}
		if target == nil {
			continue
		}
		there, err := store.Head(ctx, target, tag)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("read image %s in %s: %w", image.Name, i.Target, err)
		}
		moving[image.Name] = err == nil && there != image.Digest
	}
	for _, moves := range moving {
		if moves {
			return i.compareLists(ctx, root, moving, found)
		}
	}
	return nil
}

// compareLists adds an image in retagged to found.keptImages if a newer imported list contains the image. retagged
// contains the images whose tag this import would change.
func (i Importer) compareLists(
	ctx context.Context, root trust.Root, retagged map[string]bool, found *verifiedContent,
) error {
	target, err := i.openRepository(ctx, bundle.CarriedRepository)
	if err != nil || target == nil {
		return err
	}
	tags, err := store.Tags(ctx, target)
	if err != nil {
		return fmt.Errorf("read the imported lists of images in %s: %w", i.Target, err)
	}
	found.keptImages = map[string]bool{}
	for _, tag := range tags {
		if !bundle.IsCarriedLastTag(tag) {
			continue
		}
		before, err := i.lastList(ctx, root, tag)
		if err != nil {
			return err
		}
		if before == nil || !found.listPredicate.IsBefore(before.Predicate) {
			continue
		}
		data, err := store.FetchBlob(ctx, target, before.List, bundle.MaxDocumentBytes)
		if err != nil {
			return fmt.Errorf("read the list of images %s in %s: %w", tag, i.Target, err)
		}
		list, err := bundle.DecodeCarried(data)
		if err != nil {
			return refuseMalformed("%v", err)
		}
		for _, image := range list.Images {
			if retagged[image.Name] {
				found.keptImages[image.Name] = true
			}
		}
	}
	return nil
}

// copyList copies the file's list of images to the target and tags it for each imported runtime. With these tags, later
// imports can refuse older lists.
func (w *targetWriter) copyList(ctx context.Context, j verifiedContent) error {
	if j.list == nil {
		return nil
	}
	to, err := w.Target.Repository(ctx, bundle.CarriedRepository)
	if err != nil {
		return err
	}
	from := w.file.Repository(bundle.CarriedRepository)
	data, err := store.FetchBlob(ctx, from, j.list.Descriptor, bundle.MaxManifestBytes)
	if err != nil {
		return err
	}
	manifest := bundle.NewBlob(ocispec.MediaTypeImageManifest, data)
	below, err := store.Successors(ctx, from, manifest.Descriptor)
	if err != nil {
		return err
	}
	for _, d := range below {
		if err := w.copyBlob(ctx, to, d); err != nil {
			return err
		}
	}
	for _, b := range j.bundles {
		if err := w.writeManifest(ctx, to, manifest,
			bundle.CarriedLastTag(b.Statement.Predicate.Audience.Runtime)); err != nil {
			return err
		}
	}
	return nil
}
