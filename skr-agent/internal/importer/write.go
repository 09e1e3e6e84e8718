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

// writing is a running import. It writes the bundles after all other content, so that an interrupted import leaves no
// bundle without its content.
type writing struct {
	Importer
	file    *airgap.File
	outcome Outcome
}

func (i Importer) write(ctx context.Context, file *airgap.File, j accepted) (Outcome, error) {
	w := &writing{
		Importer: i,
		file:     file,
		outcome:  Outcome{Bundles: []Received{}, Images: []string{}, Mirrors: []string{}},
	}
	for _, step := range []func(context.Context, accepted) error{w.contents, w.list, w.images, w.roots, w.bundles} {
		if err := step(ctx, j); err != nil {
			return w.outcome, fmt.Errorf("write to %s: %w", i.To, err)
		}
	}
	return w.outcome, nil
}

func (w *writing) contents(ctx context.Context, j accepted) error {
	if len(j.contents) == 0 {
		return nil
	}
	to, err := w.To.Repository(ctx, bundle.ContentRepository)
	if err != nil {
		return err
	}
	if err := w.blob(ctx, to, bundle.EmptyBlob()); err != nil {
		return err
	}
	done := map[digest.Digest]bool{}
	for _, d := range j.contents {
		if done[d.Digest] {
			continue
		}
		done[d.Digest] = true
		if err := w.copy(ctx, to, d); err != nil {
			return err
		}
		holder, tag, err := store.ContentHolder(d)
		if err != nil {
			return err
		}
		if err := w.manifest(ctx, to, holder, tag); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) images(ctx context.Context, j accepted) error {
	for _, image := range j.images {
		repository, tag, _ := strings.Cut(image.Name, ":")
		to, err := w.To.Repository(ctx, repository)
		if err != nil {
			return err
		}
		for _, d := range j.imageBlobs[image.Name] {
			if err := w.copy(ctx, to, d); err != nil {
				return err
			}
		}
		if j.kept[image.Name] {
			w.outcome.Kept = append(w.outcome.Kept, image.Name)
		} else if there, err := store.Head(ctx, to, tag); err != nil || there != image.Digest {
			if err := to.Tag(ctx, image.Descriptor(), tag); err != nil {
				return fmt.Errorf("tag image %s: %w", image.Name, err)
			}
		}
		w.outcome.Images = append(w.outcome.Images, image.Name)
		if mirror := w.mirror(image); mirror != "" && !slices.Contains(w.outcome.Mirrors, mirror) {
			w.outcome.Mirrors = append(w.outcome.Mirrors, mirror)
		}
	}
	return nil
}

// mirror returns the value of --mirror for an image that runtimes pull from the target. It returns "" if the target
// is a folder.
func (w *writing) mirror(image bundle.CarriedImage) string {
	if store.IsLayout(w.To) {
		return ""
	}
	host, _, _ := strings.Cut(image.Reference, "/")
	carried, _, _ := strings.Cut(strings.TrimPrefix(image.Name, bundle.ImageRepository("")), "/")
	if bundle.ImageRepository(host) != bundle.ImageRepository(carried) {
		host = carried // a reference without a host refers to Docker Hub
	}
	return host + "=" + w.To.Name(bundle.ImageRepository(carried))
}

func (w *writing) roots(ctx context.Context, j accepted) error {
	if len(j.roots) == 0 {
		return nil
	}
	to, err := w.To.Repository(ctx, bundle.TrustRepository)
	if err != nil {
		return err
	}
	from := w.file.Repository(bundle.TrustRepository)
	for _, version := range j.roots {
		tag := bundle.RootTag(version)
		if _, err := store.Head(ctx, to, tag); err == nil {
			w.outcome.Known++ // skip it; a version of the root never changes
			continue
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
			if err := w.copy(ctx, to, d); err != nil {
				return err
			}
		}
		if err := w.manifest(ctx, to, manifest, tag); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) bundles(ctx context.Context, j accepted) error {
	for _, b := range j.bundles {
		runtime := b.Statement.Predicate.Audience.Runtime
		to, err := w.To.Repository(ctx, bundle.DesiredRepository(runtime))
		if err != nil {
			return err
		}
		for _, d := range []ocispec.Descriptor{b.Config, b.Catalog} {
			if _, carried := w.file.Size(d.Digest); carried {
				if err := w.copy(ctx, to, d); err != nil {
					return err
				}
			}
		}
		data, err := store.FetchBlob(ctx, w.file.Repository(bundle.DesiredRepository(runtime)), b.manifest,
			bundle.MaxManifestBytes)
		if err != nil {
			return err
		}
		if err := w.manifest(ctx, to, bundle.NewBlob(ocispec.MediaTypeImageManifest, data),
			bundle.TagDesired); err != nil {
			return err
		}
		w.outcome.Bundles = append(w.outcome.Bundles, Received{
			Runtime: runtime, Sequence: b.Statement.Predicate.Sequence, Digest: b.Digest, Before: b.before,
		})
	}
	return nil
}

// copy streams a blob from the file to the target.
func (w *writing) copy(ctx context.Context, to store.ReadWriter, d ocispec.Descriptor) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	there, err := to.Exists(ctx, d)
	if err != nil {
		return fmt.Errorf("check for blob %s: %w", d.Digest, err)
	}
	if there {
		w.outcome.Known++
		w.Advance(d.Size)
		return nil
	}
	body, err := w.file.Repository("").Fetch(ctx, d)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := store.PushStream(ctx, to, d, stoppable{ctx, body}); err != nil {
		return err
	}
	w.outcome.Written++
	w.Advance(d.Size)
	return nil
}

// stoppable is a reader that fails once its context is done.
type stoppable struct {
	ctx  context.Context
	body io.Reader
}

func (s stoppable) Read(data []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.body.Read(data)
}

func (w *writing) blob(ctx context.Context, to store.ReadWriter, blob bundle.Blob) error {
	there, err := to.Exists(ctx, blob.Descriptor)
	if err != nil || there {
		return err
	}
	return store.PushBlob(ctx, to, blob)
}

func (w *writing) manifest(ctx context.Context, to store.ReadWriter, manifest bundle.Blob, tag string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if there, err := store.Head(ctx, to, tag); err == nil && there == manifest.Descriptor.Digest {
		w.outcome.Known++
		return nil
	}
	w.outcome.Written++
	return store.PushManifest(ctx, to, manifest, tag)
}
