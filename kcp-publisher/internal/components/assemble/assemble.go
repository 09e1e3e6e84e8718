// Package assemble creates an OCM component version from a module's files: a folder with manifests, a kustomization, or
// a Helm chart. Equal files produce equal bytes.
package assemble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Component is a component version before it is pushed.
type Component struct {
	Descriptor ocm.Descriptor
	// Content is the content to install, in the descriptor's first resource.
	Content bundle.Blob
	// Others are the blobs for additional resources, such as a chart's values.
	Others []bundle.Blob
}

// New creates a component version from files and images. digests maps image references without a digest
// to the images' digests.
func New(
	name, version, provider string, files Files, images []string, digests map[string]digest.Digest,
) (*Component, error) {
	if err := errors.Join(ocm.CheckName(name), ocm.CheckVersion(version)); err != nil {
		return nil, err
	}
	content := bundle.NewBlob(files.MediaType, files.Packed)
	c := &Component{Content: content, Descriptor: ocm.Descriptor{
		Schema: ocm.SchemaV2, Name: name, Version: version, Provider: ocm.Provider{Name: provider},
		Resources: []ocm.Resource{localResource("raw-manifest", version, files.Type, content)},
	}}
	for _, other := range []struct {
		name, kind string
		data       []byte
	}{
		{"config", typeValues, files.Values}, {bundle.ContentDefaultCR, typeYAML, files.DefaultCR},
		{bundle.ContentChecks, typeYAML, files.Checks},
	} {
		if len(other.data) == 0 {
			continue
		}
		blob := bundle.NewBlob(mediaTypeYAML, other.data)
		c.Others = append(c.Others, blob)
		c.Descriptor.Resources = append(c.Descriptor.Resources, localResource(other.name, version, other.kind, blob))
	}
	for _, image := range images {
		resource, err := imageResource(image, digests[image])
		if err != nil {
			return nil, fmt.Errorf("image %q: %w", image, err)
		}
		c.Descriptor.Resources = append(c.Descriptor.Resources, resource)
	}
	addExtraIdentities(c.Descriptor.Resources)
	return c, nil
}

func localResource(name, version, kind string, blob bundle.Blob) ocm.Resource {
	d := blob.Descriptor
	return ocm.Resource{
		Element: ocm.Element{Name: name, Version: version}, Type: kind, Relation: "local",
		Access: ocm.Access{Type: ocm.AccessLocalBlob, LocalReference: d.Digest.String(), MediaType: d.MediaType},
		Digest: &ocm.Digest{
			HashAlgorithm: "SHA-256", NormalisationAlgorithm: "genericBlobDigest/v1", Value: d.Digest.Encoded(),
		},
	}
}

// These are the media types and annotations for a component version in an OCI registry.
//
// Source: ocm-spec, doc/04-extensions/03-storage-backends/oci.md.
const (
	mediaTypeConfig     = "application/vnd.ocm.software.component.config.v1+json"
	mediaTypeDescriptor = "application/vnd.ocm.software.component-descriptor.v2+yaml+tar"
	annotationVersion   = "software.ocm.componentversion"
)

// Repository returns the path of the component's repository below a registry's path.
func (c *Component) Repository() string { return "component-descriptors/" + c.Descriptor.Name }

// Push writes the component version to its repository and returns the digest of its manifest. It returns an error if
// the version already exists with different content.
func (c *Component) Push(ctx context.Context, to store.ReadWriter) (digest.Digest, error) {
	manifest, blobs, err := c.manifest()
	if err != nil {
		return "", err
	}
	tag := ocm.Tag(c.Descriptor.Version)
	switch there, err := store.Head(ctx, to, tag); {
	case err == nil && there == manifest.Descriptor.Digest:
		return there, nil
	case err == nil:
		return "",
			fmt.Errorf(
				"component %s:%s already exists with other content, as %s: choose another version",
				c.Descriptor.Name, c.Descriptor.Version, there)
	case !errors.Is(err, store.ErrNotFound):
		return "", fmt.Errorf("look up component %s:%s: %w", c.Descriptor.Name, c.Descriptor.Version, err)
	}
	for _, blob := range blobs {
		if err := store.PushBlob(ctx, to, blob); err != nil {
			return "", fmt.Errorf("push component %s:%s: %w", c.Descriptor.Name, c.Descriptor.Version, err)
		}
	}
	return manifest.Descriptor.Digest, store.PushManifest(ctx, to, manifest, tag)
}

func (c *Component) manifest() (bundle.Blob, []bundle.Blob, error) {
	document, err := c.Descriptor.Document()
	if err != nil {
		return bundle.Blob{}, nil, err
	}
	if document, err = yaml.JSONToYAML(document); err != nil {
		return bundle.Blob{}, nil, err
	}
	packed, err := packTar([]file{{"component-descriptor.yaml", document}})
	if err != nil {
		return bundle.Blob{}, nil, err
	}
	layer := bundle.NewBlob(mediaTypeDescriptor, packed)
	pointer, err := json.Marshal(map[string]any{"componentDescriptorLayer": layer.Descriptor})
	if err != nil {
		return bundle.Blob{}, nil, err
	}
	config := bundle.NewBlob(mediaTypeConfig, pointer)
	layers, blobs := []ocispec.Descriptor{layer.Descriptor, c.Content.Descriptor}, []bundle.Blob{layer, c.Content}
	for _, other := range c.Others {
		layers, blobs = append(layers, other.Descriptor), append(blobs, other)
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config.Descriptor, Layers: layers,
		Annotations: map[string]string{
			annotationVersion: strings.TrimPrefix(c.Repository(), "component-descriptors/") + ":" +
				c.Descriptor.Version,
		},
	})
	return bundle.NewBlob(ocispec.MediaTypeImageManifest, manifest), append(blobs, config), err
}
