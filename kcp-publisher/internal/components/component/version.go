package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	kjson "sigs.k8s.io/json"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// root is a component version's OCI manifest or index. In an index, one manifest refers to the component descriptor,
// and the others are resources.
type root struct {
	repository oras.ReadOnlyTarget
	layers     []ocispec.Descriptor
	// entries are the manifests in an index except the one with the component descriptor.
	entries []ocispec.Descriptor
}

const (
	annotationDescriptor = "software.ocm.descriptor"
	annotationVersion    = "software.ocm.componentversion"
	maxEntries           = 1_000
)

// readVersion reads a component version from a repository.
//
// Source: ocm-spec, doc/04-extensions/03-storage-backends/oci.md.
func readVersion(
	ctx context.Context, repository oras.ReadOnlyTarget, fetched bundle.Fetched, name, version string,
) (Component, error) {
	own := ocispec.Descriptor{
		MediaType: fetched.Descriptor.MediaType, Digest: digest.FromBytes(fetched.Bytes),
		Size: int64(len(fetched.Bytes)),
	}
	found := root{repository: repository}
	if fetched.Descriptor.MediaType == ocispec.MediaTypeImageIndex {
		descriptor, entries, err := decodeIndexManifest(fetched)
		if err != nil {
			return Component{}, fmt.Errorf("index: %w", err)
		}
		if fetched, err = store.Fetch(ctx, repository, descriptor.Digest.String()); err != nil {
			return Component{}, fmt.Errorf("index: manifest of the descriptor: %w", err)
		}
		found.entries = entries
	}
	manifest, err := decodeManifest(fetched)
	if err != nil {
		return Component{}, fmt.Errorf("manifest: %w", err)
	}
	if stated := strings.TrimPrefix(manifest.Annotations[annotationVersion], descriptorsPath); stated != "" &&
		stated != name+":"+version {
		return Component{},
			fmt.Errorf("manifest: annotation %s is %q, must be %q", annotationVersion, stated, name+":"+version)
	}
	found.layers = manifest.Layers
	descriptor, err := readDescriptor(ctx, repository, manifest)
	if err != nil {
		return Component{}, err
	}
	if descriptor.Name != name {
		return Component{}, fmt.Errorf("component descriptor: component.name is %q, must be %q", descriptor.Name, name)
	}
	if descriptor.Version != version {
		return Component{},
			fmt.Errorf("component descriptor: component.version is %q, must be %q", descriptor.Version, version)
	}
	for i, resource := range descriptor.Resources {
		if resource.Access.Kind() != ocm.AccessLocalBlob {
			continue
		}
		for _, part := range localParts(resource) {
			if _, ok := find(found.layers, part); !ok {
				if _, ok := find(found.entries, part); !ok {
					return Component{},
						fmt.Errorf(
							"component descriptor: component.resources[%d].access.localReference: %s is not a layer "+
								"of the component version", i, part)
				}
			}
		}
	}
	return Component{Descriptor: descriptor, Manifest: own, root: found}, nil
}

// localParts returns the digests of the layers that form a local blob. The blob's content is the concatenation of these
// layers.
func localParts(r ocm.Resource) []digest.Digest {
	var parts []digest.Digest
	for part := range strings.SplitSeq(r.Access.LocalReference, ",") {
		parts = append(parts, digest.Digest(part))
	}
	return parts
}

// decodeIndexManifest decodes an index. It returns the manifest with the component descriptor, and the other manifests.
// An annotation marks the manifest with the component descriptor. Without an annotation, the first manifest contains
// the component descriptor.
func decodeIndexManifest(fetched bundle.Fetched) (ocispec.Descriptor, []ocispec.Descriptor, error) {
	var document struct {
		ocispec.Index `json:",inline"`
		// A document with layers and manifests is ambiguous.
		Layers json.RawMessage `json:"layers"`
	}
	if err := decodeChecked(fetched, &document); err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	switch {
	case document.MediaType != "" && document.MediaType != ocispec.MediaTypeImageIndex:
		return ocispec.Descriptor{}, nil,
			fmt.Errorf("mediaType is %q in the document and %q in the response", document.MediaType,
				ocispec.MediaTypeImageIndex)
	case document.Layers != nil:
		return ocispec.Descriptor{}, nil, errors.New("layers must not be set in an index")
	case document.SchemaVersion != 2 || len(document.Manifests) == 0 || len(document.Manifests) > maxEntries:
		return ocispec.Descriptor{}, nil,
			fmt.Errorf("schemaVersion %d with %d manifests is not a component version", document.SchemaVersion,
				len(document.Manifests))
	}
	chosen := -1
	for i, m := range document.Manifests {
		if err := checkBlob(m); err != nil {
			return ocispec.Descriptor{}, nil, fmt.Errorf("manifests[%d].%w", i, err)
		}
		if m.Annotations[annotationDescriptor] != "true" {
			continue
		}
		if chosen >= 0 {
			return ocispec.Descriptor{}, nil,
				fmt.Errorf("manifests[%d] and manifests[%d] are both marked as %s", chosen, i, annotationDescriptor)
		}
		chosen = i
	}
	chosen = max(chosen, 0)
	return document.Manifests[chosen], slices.Delete(slices.Clone(document.Manifests), chosen, chosen+1), nil
}

// decodeManifest decodes an image manifest. The registry's response is not signed, so decodeManifest validates all
// fields that later code uses.
func decodeManifest(fetched bundle.Fetched) (ocispec.Manifest, error) {
	if fetched.Descriptor.MediaType != ocispec.MediaTypeImageManifest {
		return ocispec.Manifest{},
			fmt.Errorf("the registry sent media type %q, must be %q", fetched.Descriptor.MediaType,
				ocispec.MediaTypeImageManifest)
	}
	var document struct {
		ocispec.Manifest `json:",inline"`
		// A document with layers and manifests is ambiguous.
		Manifests json.RawMessage `json:"manifests"`
	}
	if err := decodeChecked(fetched, &document); err != nil {
		return ocispec.Manifest{}, err
	}
	manifest := document.Manifest
	switch {
	case manifest.MediaType != "" && manifest.MediaType != ocispec.MediaTypeImageManifest:
		return manifest,
			fmt.Errorf("mediaType is %q in the document and %q in the response", manifest.MediaType,
				ocispec.MediaTypeImageManifest)
	case document.Manifests != nil:
		return manifest, errors.New("manifests must not be set in an image manifest")
	case manifest.SchemaVersion != 2 || len(manifest.Layers) == 0:
		return manifest,
			fmt.Errorf("schemaVersion %d with %d layers is not a component version", manifest.SchemaVersion,
				len(manifest.Layers))
	}
	if err := checkBlob(manifest.Config); err != nil {
		return manifest, fmt.Errorf("config.%w", err)
	}
	for i, layer := range manifest.Layers {
		if err := checkBlob(layer); err != nil {
			return manifest, fmt.Errorf("layers[%d].%w", i, err)
		}
	}
	return manifest, nil
}

func decodeChecked(fetched bundle.Fetched, into any) error {
	if actual := digest.FromBytes(fetched.Bytes); fetched.Descriptor.Digest != "" &&
		fetched.Descriptor.Digest != actual {
		return fmt.Errorf("the digest is %s, must be %s", actual, fetched.Descriptor.Digest)
	}
	doubts, err := kjson.UnmarshalStrict(fetched.Bytes, into, kjson.DisallowDuplicateFields)
	return errors.Join(append(doubts, err)...)
}

func checkBlob(blob ocispec.Descriptor) error {
	if err := blob.Digest.Validate(); err != nil {
		return fmt.Errorf("digest: %q: %w", blob.Digest, err)
	}
	if blob.Size < 0 {
		return fmt.Errorf("size: %d is negative", blob.Size)
	}
	return nil
}

func find(blobs []ocispec.Descriptor, d digest.Digest) (ocispec.Descriptor, bool) {
	for _, blob := range blobs {
		if blob.Digest == d {
			return ocispec.Descriptor{MediaType: blob.MediaType, Digest: d, Size: blob.Size}, true
		}
	}
	return ocispec.Descriptor{}, false
}

// configTypes are the media types of a config blob that identifies the layer with the component descriptor.
var configTypes = []string{
	"application/vnd.ocm.software.component.config.v1+json",
	"application/vnd.gardener.cloud.cnudie.component.config.v1+json",
	"application/vnd.oci.gardener.cloud.cnudie.component-descriptor-metadata.config.v2+json",
}

func isDescriptor(layer ocispec.Descriptor) bool {
	kind, _, _ := strings.Cut(layer.MediaType, "+")
	return slices.Contains([]string{
		"application/vnd.ocm.software.component-descriptor.v2",
		"application/vnd.gardener.cloud.cnudie.component-descriptor.v2",
		"application/vnd.oci.gardener.cloud.cnudie.component-descriptor.config.v2",
	}, kind)
}

// readDescriptor reads the component descriptor from its layer. It finds the layer through the config blob or by its
// media type.
func readDescriptor(
	ctx context.Context, repository oras.ReadOnlyTarget, manifest ocispec.Manifest,
) (ocm.Descriptor, error) {
	layer, err := descriptorLayer(ctx, repository, manifest)
	if err != nil {
		return ocm.Descriptor{}, err
	}
	data, err := store.FetchBlob(ctx, repository, layer, 2*ocm.MaxDescriptorBytes)
	if err != nil {
		return ocm.Descriptor{}, fmt.Errorf("descriptor layer: %w", err)
	}
	if strings.HasSuffix(layer.MediaType, "+tar") {
		if data, err = ocm.FromTar(data); err != nil {
			return ocm.Descriptor{}, err
		}
	}
	return ocm.Decode(data)
}

func descriptorLayer(
	ctx context.Context, repository oras.ReadOnlyTarget, manifest ocispec.Manifest,
) (ocispec.Descriptor, error) {
	var marked []ocispec.Descriptor
	for _, layer := range manifest.Layers {
		if isDescriptor(layer) {
			marked = append(marked, layer)
		}
	}
	if !slices.Contains(configTypes, manifest.Config.MediaType) && len(marked) == 1 {
		return marked[0], nil
	}
	config, err := store.FetchBlob(ctx, repository, manifest.Config, ocm.MaxDescriptorBytes)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("config: %w", err)
	}
	var pointer struct {
		Layer ocispec.Descriptor `json:"componentDescriptorLayer"`
	}
	if err := json.Unmarshal(config, &pointer); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("config: %w", err)
	}
	layer, ok := find(manifest.Layers, pointer.Layer.Digest)
	if !ok {
		return ocispec.Descriptor{},
			fmt.Errorf("config: componentDescriptorLayer: %q is not a layer of the component version",
				pointer.Layer.Digest)
	}
	return layer, nil
}
