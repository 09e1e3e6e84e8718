package importer

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// targetWriter is a running import. It writes the bundles after all other content, so that an interrupted import leaves
// no bundle without its content.
type targetWriter struct {
	Importer
	file *airgap.File
	// pinsRoot is true if the target has no root of trust yet and no root was configured.
	pinsRoot bool
	outcome  Outcome
}

func (i Importer) write(
	ctx context.Context, file *airgap.File, j verifiedContent, pinsRoot bool,
) (Outcome, error) {
	w := &targetWriter{
		Importer: i,
		file:     file,
		pinsRoot: pinsRoot,
		outcome:  Outcome{Bundles: []ImportedBundle{}, Images: []string{}, Mirrors: []string{}},
	}
	for _, step := range []func(context.Context, verifiedContent) error{w.copyContents, w.copyList, w.copyImages,
		w.copyRoots, w.copyBundles} {
		if err := step(ctx, j); err != nil {
			return w.outcome, fmt.Errorf("write to %s: %w", i.Target, err)
		}
	}
	return w.outcome, nil
}

func (w *targetWriter) copyContents(ctx context.Context, j verifiedContent) error {
	if len(j.contents) == 0 {
		return nil
	}
	to, err := w.Target.Repository(ctx, bundle.ContentRepository)
	if err != nil {
		return err
	}
	if err := w.writeBlob(ctx, to, bundle.EmptyBlob()); err != nil {
		return err
	}
	done := map[digest.Digest]bool{}
	for _, d := range j.contents {
		if done[d.Digest] {
			continue
		}
		done[d.Digest] = true
		if err := w.copyBlob(ctx, to, d); err != nil {
			return err
		}
		holder, tag, err := store.ContentHolder(d)
		if err != nil {
			return err
		}
		if err := w.writeManifest(ctx, to, holder, tag); err != nil {
			return err
		}
	}
	return nil
}

func (w *targetWriter) copyImages(ctx context.Context, j verifiedContent) error {
	for _, image := range j.images {
		repository, tag, _ := strings.Cut(image.Name, ":")
		to, err := w.Target.Repository(ctx, repository)
		if err != nil {
			return err
		}
		for _, d := range j.imageBlobs[image.Name] {
			if err := w.copyBlob(ctx, to, d); err != nil {
				return err
			}
		}
		if j.keptImages[image.Name] {
			w.outcome.SkippedImages = append(w.outcome.SkippedImages, image.Name)
		} else if there, err := store.Head(ctx, to, tag); err != nil || there != image.Digest {
			if err := to.Tag(ctx, image.Descriptor(), tag); err != nil {
				return fmt.Errorf("tag image %s: %w", image.Name, err)
			}
		}
		w.outcome.Images = append(w.outcome.Images, image.Name)
		if mirror := w.mirrorFlag(image); mirror != "" && !slices.Contains(w.outcome.Mirrors, mirror) {
			w.outcome.Mirrors = append(w.outcome.Mirrors, mirror)
		}
	}
	return nil
}

// mirrorFlag returns the value of --mirror for an image that runtimes pull from the target. It returns "" if the target
// is a folder.
func (w *targetWriter) mirrorFlag(image bundle.CarriedImage) string {
	if store.IsLayout(w.Target) {
		return ""
	}
	host, _, _ := strings.Cut(image.Reference, "/")
	carried, _, _ := strings.Cut(strings.TrimPrefix(image.Name, bundle.ImageRepository("")), "/")
	if bundle.ImageRepository(host) != bundle.ImageRepository(carried) {
		host = carried // a reference without a host refers to Docker Hub
	}
	return host + "=" + w.Target.Name(bundle.ImageRepository(carried))
}

func (w *targetWriter) copyRoots(ctx context.Context, j verifiedContent) error {
	if len(j.roots) == 0 {
		return nil
	}
	to, err := w.Target.Repository(ctx, bundle.TrustRepository)
	if err != nil {
		return err
	}
	from := w.file.Repository(bundle.TrustRepository)
	for _, version := range j.roots {
		tag := bundle.RootTag(version)
		if _, err := store.Head(ctx, to, tag); err == nil {
			w.outcome.ExistingCount++ // skip it; a version of the root never changes
			continue
		}
		if w.pinsRoot && version == w.Root.Version {
			// Record it before the write, because the target can store the root although the request fails.
			w.outcome.PinnedRoot = digest.FromBytes(w.Root.Raw)
		}
		fetched, err := store.Fetch(ctx, from, tag)
		if err != nil {
			return err
		}
		manifest := bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes)
		below, err := store.Successors(ctx, from, manifest.Descriptor)
		if err != nil {
			return err
		}
		for _, d := range below {
			if err := w.copyBlob(ctx, to, d); err != nil {
				return err
			}
		}
		if err := w.writeManifest(ctx, to, manifest, tag); err != nil {
			return err
		}
	}
	return nil
}

func (w *targetWriter) copyBundles(ctx context.Context, j verifiedContent) error {
	for _, b := range j.bundles {
		runtime := b.Statement.Predicate.Audience.Runtime
		to, err := w.Target.Repository(ctx, bundle.DesiredRepository(runtime))
		if err != nil {
			return err
		}
		for _, d := range []ocispec.Descriptor{b.Config, b.Catalog} {
			if _, carried := w.file.Size(d.Digest); carried {
				if err := w.copyBlob(ctx, to, d); err != nil {
					return err
				}
			}
		}
		data, err := store.FetchBlob(ctx, w.file.Repository(bundle.DesiredRepository(runtime)), b.manifest,
			bundle.MaxManifestBytes)
		if err != nil {
			return err
		}
		if err := w.writeManifest(ctx, to, bundle.NewBlob(ocispec.MediaTypeImageManifest, data),
			bundle.TagDesired); err != nil {
			return err
		}
		w.outcome.Bundles = append(w.outcome.Bundles, ImportedBundle{
			Runtime: runtime, Sequence: b.Statement.Predicate.Sequence, Digest: b.Digest, PreviousSequence: b.previousSequence,
		})
	}
	return nil
}

// copyBlob streams a blob from the file to the target.
func (w *targetWriter) copyBlob(ctx context.Context, to store.ReadWriter, d ocispec.Descriptor) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	there, err := to.Exists(ctx, d)
	if err != nil {
		return fmt.Errorf("check for blob %s: %w", d.Digest, err)
	}
	if there {
		w.outcome.ExistingCount++
		w.OnProgress(d.Size)
		return nil
	}
	err = store.RetryPaused(func() error {
		body, err := w.file.Repository("").Fetch(ctx, d)
		if err != nil {
			return err
		}
		defer body.Close()
		return store.PushStream(ctx, to, d, contextReader{ctx, body})
	})
	if err != nil {
		return err
	}
	w.outcome.WrittenCount++
	w.OnProgress(d.Size)
	return nil
}

// contextReader is a reader that fails once its context is done.
type contextReader struct {
	ctx  context.Context
	body io.Reader
}

func (s contextReader) Read(data []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.body.Read(data)
}

func (w *targetWriter) writeBlob(ctx context.Context, to store.ReadWriter, blob bundle.Blob) error {
	there, err := to.Exists(ctx, blob.Descriptor)
	if err != nil || there {
		return err
	}
	return store.PushBlob(ctx, to, blob)
}

func (w *targetWriter) writeManifest(ctx context.Context, to store.ReadWriter, manifest bundle.Blob, tag string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if there, err := store.Head(ctx, to, tag); err == nil && there == manifest.Descriptor.Digest {
		w.outcome.ExistingCount++
		return nil
	}
	w.outcome.WrittenCount++
	return store.PushManifest(ctx, to, manifest, tag)
}
