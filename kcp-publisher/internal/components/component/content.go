package component

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Content is a resource's content with the location that runtimes read it from.
type Content struct {
	bundle.Content
	// Manifest is the OCI manifest of the artifact that contains the content, or nil.
	Manifest []byte
}

// locatedContent is a resource's content with the location that the publisher can read it from. The content has not
// been copied to the runtimes' registry yet.
type locatedContent struct {
	Content
	from oras.ReadOnlyTarget
	// bytes is the content itself if no repository contains it as a single blob, for example a chart in a Helm
	// repository. Otherwise, it is nil.
	bytes []byte
}

func newContent(repository string, blob ocispec.Descriptor) Content {
	return Content{
		Content: bundle.Content{
			Repository: repository,
			MediaType:  blob.MediaType,
			Digest:     blob.Digest,
			SizeBytes:  blob.Size,
		},
	}
}

const mediaTypeChart = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// Content returns a resource's content with the location that runtimes read it from. If necessary, it first copies the
// content to target, the runtimes' registry. It returns an error if the content does not match the resource's digest.
func (r *Reader) Content(ctx context.Context, c Component, resource ocm.Resource, target store.Store) (Content, error) {
	content, err := r.settleContent(ctx, c, resource, target)
	if err != nil {
		return Content{}, c.wrapError(resource, err)
	}
	content.Name = resource.Name
	return content, nil
}

// Bytes returns the content of a resource, up to bundle.MaxLayerBytes. It compares the content with the resource's
// digest.
func (r *Reader) Bytes(ctx context.Context, c Component, resource ocm.Resource) ([]byte, error) {
	found, err := r.locateContent(ctx, c, resource, nil)
	if err != nil {
		return nil, c.wrapError(resource, err)
	}
	if found.bytes != nil {
		return found.bytes, nil
	}
	data, err := store.FetchBlob(ctx, found.from, found.Descriptor(), bundle.MaxLayerBytes)
	if err != nil {
		return nil, c.wrapError(resource, err)
	}
	return data, nil
}

func (c Component) wrapError(resource ocm.Resource, err error) error {
	return fmt.Errorf("component %s:%s: resource %q: %w", c.Descriptor.Name, c.Descriptor.Version, resource.Name, err)
}

// locateContent finds the location of a resource's content, as specified by the resource's access.
//
// Source: ocm-spec, doc/04-extensions/02-access-types.
func (r *Reader) locateContent(
	ctx context.Context, c Component, resource ocm.Resource, place store.Store,
) (locatedContent, error) {
	access := resource.Access
	switch access.Kind() {
	case ocm.AccessLocalBlob:
		return r.locateLocal(ctx, c, resource)
	case ocm.AccessOCIArtifact:
		return r.locateArtifact(ctx, c, resource, access.ImageReference, place)
	case ocm.AccessRelativeOCI:
		host, ok := c.registryHost()
		if !ok {
			return locatedContent{},
				fmt.Errorf("access %s: the reference is relative to a registry, but the component is not in a registry",
					access.Type)
		}
		return r.locateArtifact(ctx, c, resource, host+"/"+access.ImageReference, place)
	case ocm.AccessOCIBlob:
		return r.locateBlob(ctx, resource, place)
	case ocm.AccessHelm:
		return r.locateChart(ctx, c, resource, place)
	}
	return locatedContent{},
		fmt.Errorf("access %s is not supported: must be localBlob, ociArtifact, ociBlob, relativeOciReference or helm",
			access.Type)
}

// locateLocal returns the content of a localBlob access. The content is a layer, another manifest in the component's
// index, or several layers.
func (r *Reader) locateLocal(ctx context.Context, c Component, resource ocm.Resource) (locatedContent, error) {
	parts := localParts(resource)
	if len(parts) > 1 {
		return r.joinParts(ctx, c, resource, parts)
	}
	if entry, ok := find(c.root.entries, parts[0]); ok {
		if err := ignoreMissingDigest(ocm.CheckArtifact(resource, entry.Digest)); err != nil {
			return locatedContent{}, err
		}
		return findChartLayer(ctx, c.root.repository, c.Repository, entry.Digest.String())
	}
	layer, repository, name, err := r.findLayer(ctx, c, parts[0])
	if err != nil {
		return locatedContent{}, err
	}
	if resource.Access.MediaType != "" {
		// A layer that was found by its digest does not have a media type.
		layer.MediaType = resource.Access.MediaType
	}
	return coveredContent(ctx, resource, locatedContent{Content: newContent(name, layer), from: repository})
}

// findLayer finds a layer of the component version by its digest. An inline descriptor's layer can be in any of the
// component's repositories.
func (r *Reader) findLayer(
	ctx context.Context, c Component, d digest.Digest,
) (ocispec.Descriptor, oras.ReadOnlyTarget, string, error) {
	if layer, ok := find(c.root.layers, d); ok {
		return layer, c.root.repository, c.Repository, nil
	}
	if c.inline {
		return r.findBlob(ctx, c, d)
	}
	return ocispec.Descriptor{}, nil, "",
		fmt.Errorf("access.localReference: %s is not a layer of the component version", d)
}

func (r *Reader) joinParts(
	ctx context.Context, c Component, resource ocm.Resource, parts []digest.Digest,
) (locatedContent, error) {
	var data []byte
	for _, part := range parts {
		layer, repository, _, err := r.findLayer(ctx, c, part)
		if err != nil {
			return locatedContent{}, err
		}
		piece, err := store.FetchBlob(ctx, repository, layer, bundle.MaxLayerBytes-int64(len(data)))
		if err != nil {
			return locatedContent{}, err
		}
		data = append(data, piece...)
	}
	return coveredBytes(resource, inMemory(resource.Access.MediaType, data))
}

func inMemory(mediaType string, data []byte) locatedContent {
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	return locatedContent{Content: newContent("", bundle.NewBlob(mediaType, data).Descriptor), bytes: data}
}

// ignoreMissingDigest drops the error for a missing digest, because the signature policy decides whether a digest is
// required.
func ignoreMissingDigest(err error) error {
	if errors.Is(err, ocm.ErrNotCovered) {
		return nil
	}
	return err
}

// coveredContent returns the part of the content that the resource's digest covers. The digest covers the whole blob
// or, if the blob is an artifact set, the set's only artifact.
func coveredContent(ctx context.Context, resource ocm.Resource, found locatedContent) (locatedContent, error) {
	d := resource.Digest
	switch {
	case !d.IsCovered():
		return found, nil
	case d.NormalisationAlgorithm == "genericBlobDigest/v1" &&
		strings.EqualFold(strings.ReplaceAll(d.HashAlgorithm, "-", ""), found.Digest.Algorithm().String()):
		if !strings.EqualFold(d.Value, found.Digest.Encoded()) {
			return locatedContent{},
				fmt.Errorf("%w: its digest is %s, but the component lists %s", ocm.ErrMismatch, found.Digest.Encoded(),
					d.Value)
		}
		return found, nil
	}
	data, err := store.FetchBlob(ctx, found.from, found.Descriptor(), bundle.MaxLayerBytes)
	if err != nil {
		return locatedContent{}, err
	}
	checked := found
	checked.bytes = data
	checked, err = coveredBytes(resource, checked)
	if err == nil && !d.IsArtifactDigest() {
		checked.bytes = nil // runtimes can read the whole blob at its location
	}
	return checked, err
}

// coveredBytes returns the part of a blob that the resource's digest covers. In a blob that is an artifact set, the
// digest covers only the artifact's manifest and its blobs, but not the set's index.
func coveredBytes(resource ocm.Resource, found locatedContent) (locatedContent, error) {
	if err := ignoreMissingDigest(ocm.CheckContent(resource, found.bytes)); err != nil ||
		!resource.Digest.IsArtifactDigest() {
		return found, err
	}
	set, err := ocm.OpenArtifactSet(found.bytes)
	if err != nil {
		return locatedContent{}, err
	}
	manifest, err := set.Blob(set.Main.Digest)
	if err != nil {
		return locatedContent{}, err
	}
	layer, err := contentLayer(
		bundle.Fetched{
			Descriptor: ocispec.Descriptor{MediaType: set.Main.MediaType, Digest: set.Main.Digest},
			Bytes:      manifest,
		},
	)
	if err != nil {
		return locatedContent{}, err
	}
	data, err := set.Blob(layer.Digest)
	if err != nil {
		return locatedContent{}, err
	}
	checked := inMemory(layer.MediaType, data)
	checked.Manifest = manifest
	return checked, nil
}

// registryHost returns the host of the component's registry, which relative references in the component omit.
//
// Source: OCM, api/ocm/extensions/accessmethods/relativeociref, "OCI reference without the host part".
func (c Component) registryHost() (string, bool) {
	registry, ok := c.source.(Registry)
	return registry.host(), ok
}

// locateArtifact returns the chart layer or the only layer of an OCI artifact.
func (r *Reader) locateArtifact(
	ctx context.Context, c Component, resource ocm.Resource, reference string, place store.Store,
) (locatedContent, error) {
	name, version, err := splitReference(reference)
	if err != nil {
		return locatedContent{}, fmt.Errorf("access: reference %q: %w", reference, err)
	}
	repository, _, err := r.openForeign(name, place)
	if err != nil {
		return locatedContent{}, err
	}
	d := digest.Digest(version)
	if d.Validate() == nil {
		if err := ignoreMissingDigest(ocm.CheckArtifact(resource, d)); err != nil {
			return locatedContent{}, err
		}
		return findChartLayer(ctx, repository, name, version)
	}
	d, err = store.Head(ctx, repository, version)
	if first, ok := r.firstDigest(c, resource); ok && err != nil && ctx.Err() == nil &&
		!errors.Is(err, store.ErrNotFound) {
		d, err = first, nil // use the recorded digest while the registry is unavailable
	}
	if err != nil {
		return locatedContent{}, err
	}
	if err := ignoreMissingDigest(ocm.CheckArtifact(resource, d)); err != nil {
		return locatedContent{}, err
	}
	found, err := findChartLayer(ctx, repository, name, d.String())
	if err != nil {
		return locatedContent{}, err
	}
	return found, r.recordDigest(c, resource, reference, d)
}

// splitReference splits an image reference into the name and the version. The version is the digest or, without a
// digest, the tag.
func splitReference(reference string) (name, version string, err error) {
	name, pinned, isPinned := strings.Cut(strings.TrimPrefix(reference, "oci://"), "@")
	if i := strings.LastIndex(name, ":"); isPinned && i > strings.LastIndex(name, "/") {
		name = name[:i]
	}
	if isPinned {
		name += "@" + pinned
	}
	parsed, err := registry.ParseReference(name)
	if err != nil {
		return "", "", err
	}
	if parsed.Reference == "" {
		return "", "", errors.New("the reference has no tag or digest")
	}
	return parsed.Registry + "/" + parsed.Repository, parsed.Reference, nil
}

func findChartLayer(
	ctx context.Context, from oras.ReadOnlyTarget, repository, reference string,
) (locatedContent, error) {
	fetched, err := store.Fetch(ctx, from, reference)
	if err != nil {
		return locatedContent{}, err
	}
	layer, err := contentLayer(fetched)
	if err != nil {
		return locatedContent{}, err
	}
	content := newContent(repository, layer)
	content.Manifest = fetched.Bytes
	return locatedContent{Content: content, from: from}, nil
}

// contentLayer returns the layer with an artifact's content: the chart layer or the only layer.
func contentLayer(fetched bundle.Fetched) (ocispec.Descriptor, error) {
	manifest, err := decodeManifest(fetched)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("manifest %s: %w", fetched.Descriptor.Digest, err)
	}
	chosen := manifest.Layers
	for _, layer := range manifest.Layers {
		if layer.MediaType == mediaTypeChart {
			chosen = []ocispec.Descriptor{layer}
		}
	}
	if len(chosen) != 1 {
		return ocispec.Descriptor{},
			fmt.Errorf("artifact %s has %d layers, and none is a chart: must have a chart layer or a single layer",
				fetched.Descriptor.Digest, len(chosen))
	}
	return ocispec.Descriptor{MediaType: chosen[0].MediaType, Digest: chosen[0].Digest, Size: chosen[0].Size}, nil
}

// locateBlob returns the content of an ociBlob access.
func (r *Reader) locateBlob(ctx context.Context, resource ocm.Resource, place store.Store) (locatedContent, error) {
	access := resource.Access
	parsed, err := registry.ParseReference(access.Repository)
	if err != nil {
		return locatedContent{}, fmt.Errorf("access.ref: %q: %w", access.Repository, err)
	}
	descriptor := ocispec.Descriptor{
		MediaType: access.MediaType,
		Digest:    digest.Digest(access.Digest),
		Size:      access.SizeBytes,
	}
	if err := checkBlob(descriptor); err != nil {
		return locatedContent{}, fmt.Errorf("access.%w", err)
	}
	name := parsed.Registry + "/" + parsed.Repository
	repository, _, err := r.openForeign(name, place)
	if err != nil {
		return locatedContent{}, err
	}
	return coveredContent(ctx, resource, locatedContent{Content: newContent(name, descriptor), from: repository})
}
