// Package component reads OCM component versions: a name and a version go in, the verified descriptor and the places of the
// contents come out.
//
// Everything read is bounded and checked against its digest. A version whose manifest changed under the same name is an
// error, never silently used.
package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	kjson "sigs.k8s.io/json"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

// ErrMissing says that no source has the component version.
var ErrMissing = errors.New("component version not found")

// Component is a component version as it was found.
type Component struct {
	Descriptor ocm.Descriptor
	// Manifest is the component version's own.
	Manifest ocispec.Descriptor
	// Repository is the OCI repository with the blobs that runtimes read from; empty when it must be copied first.
	Repository string
	// Blobs are the local resources' contents, by resource name. A name that several resources have means none of them.
	Blobs map[string]ocispec.Descriptor

	source Source
}

// Reader finds component versions in its sources, in their order, and remembers them.
type Reader struct {
	sources []Source
	// retryAfter is how long a failure is remembered, revalidate how long a success is taken for unchanged.
	retryAfter, revalidate time.Duration
	now                    func() time.Time

	mu    sync.Mutex // guards found
	found map[string]*entry
}

type entry struct {
	mu        sync.Mutex // held while the version is read, so that it is read once
	component Component
	err       error
	checked   time.Time
}

// NewReader reads from sources. A version is looked at again after revalidate, a failure after retryAfter.
func NewReader(sources []Source, revalidate, retryAfter time.Duration) *Reader {
	return &Reader{sources: sources, retryAfter: retryAfter, revalidate: revalidate, now: time.Now, found: map[string]*entry{}}
}

// Component gives a component version. It wraps ErrMissing when no source has it.
func (r *Reader) Component(ctx context.Context, name, version string) (Component, error) {
	r.mu.Lock()
	e := r.found[name+":"+version]
	if e == nil {
		e = &entry{}
		r.found[name+":"+version] = e
	}
	r.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	age := r.now().Sub(e.checked)
	if !e.checked.IsZero() && (e.err == nil && age < r.revalidate || e.err != nil && age < r.retryAfter) {
		return e.component, e.err
	}
	known := e.component.Manifest.Digest
	if known != "" && e.err == nil && e.component.unchanged(ctx) {
		e.checked = r.now()
		return e.component, nil
	}
	component, err := r.read(ctx, name, version)
	if err != nil && ctx.Err() != nil { // says something about the caller, nothing about the version
		return Component{}, err
	}
	switch {
	case err != nil && known != "" && !errors.Is(err, ErrMissing):
		// What was read once is pinned by digest and stays true while the registry is away.
		e.checked = r.now()
		return e.component, e.err
	case err == nil && known != "" && component.Manifest.Digest != known:
		err = fmt.Errorf("component %s:%s changed under the same version: was %s, is %s: release a new version instead", name, version, known, component.Manifest.Digest)
	case err == nil:
		e.component = component
	}
	e.err, e.checked = err, r.now()
	if err != nil {
		return Component{}, err
	}
	return e.component, nil
}

// unchanged asks for the digest alone, which costs one request instead of three.
func (c Component) unchanged(ctx context.Context) bool {
	repository, err := c.source.Open(c.Descriptor.Name)
	if err != nil {
		return false
	}
	there, err := bundle.Head(ctx, repository, ocm.Tag(c.Descriptor.Version))
	return err == nil && there == c.Manifest.Digest
}

func (r *Reader) read(ctx context.Context, name, version string) (Component, error) {
	if err := ocm.CheckName(name); err != nil {
		return Component{}, err
	}
	if err := ocm.CheckVersion(version); err != nil {
		return Component{}, err
	}
	for _, source := range r.sources {
		repository, err := source.Open(name)
		if err != nil {
			return Component{}, fmt.Errorf("component %s:%s in %s: %w", name, version, source, err)
		}
		component, err := readVersion(ctx, repository, name, version)
		if errors.Is(err, bundle.ErrNotFound) {
			continue
		}
		if err != nil {
			return Component{}, fmt.Errorf("component %s:%s in %s: %w", name, version, source, err)
		}
		component.source, component.Repository = source, source.Repository(name)
		return component, nil
	}
	return Component{}, fmt.Errorf("component %s:%s: %w in %s", name, version, ErrMissing, sourceNames(r.sources))
}

func sourceNames(sources []Source) string {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.String()
	}
	if len(names) == 0 {
		return "no repository: name one with --components"
	}
	return strings.Join(names, ", ")
}

// readVersion reads manifest, config and descriptor of one version.
func readVersion(ctx context.Context, repository oras.ReadOnlyTarget, name, version string) (Component, error) {
	fetched, err := bundle.Fetch(ctx, repository, ocm.Tag(version))
	if err != nil {
		return Component{}, err
	}
	manifest, err := decodeManifest(fetched)
	if err != nil {
		return Component{}, fmt.Errorf("manifest: %w", err)
	}
	descriptor, err := readDescriptor(ctx, repository, manifest)
	if err != nil {
		return Component{}, err
	}
	if descriptor.Name != name {
		return Component{}, fmt.Errorf("component descriptor: component.name: is %q, want %q", descriptor.Name, name)
	}
	if descriptor.Version != version {
		return Component{}, fmt.Errorf("component descriptor: component.version: is %q, want %q", descriptor.Version, version)
	}
	component := Component{
		Descriptor: descriptor, Blobs: map[string]ocispec.Descriptor{},
		Manifest: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(fetched.Bytes), Size: int64(len(fetched.Bytes))},
	}
	for i, resource := range descriptor.Resources {
		if resource.Access.Kind() != ocm.AccessLocalBlob {
			continue
		}
		layer, ok := layerOf(manifest, digest.Digest(resource.Access.LocalReference))
		if !ok {
			return Component{}, fmt.Errorf("component descriptor: component.resources[%d].access.localReference: %s is no layer of the component version", i, resource.Access.LocalReference)
		}
		component.Blobs[resource.Name] = layer
	}
	for name := range component.Blobs {
		if _, one := descriptor.Resource(name); !one {
			delete(component.Blobs, name)
		}
	}
	return component, nil
}

// decodeManifest reads what a registry answered as an image manifest. Nobody has signed it, so that everything later code
// relies on is checked here: a digest of an unknown form would make the digest library panic.
func decodeManifest(fetched bundle.Fetched) (ocispec.Manifest, error) {
	if len(fetched.Bytes) > bundle.MaxManifestBytes {
		return ocispec.Manifest{}, fmt.Errorf("larger than %d bytes", bundle.MaxManifestBytes)
	}
	if actual := digest.FromBytes(fetched.Bytes); fetched.Descriptor.Digest != "" && fetched.Descriptor.Digest != actual {
		return ocispec.Manifest{}, fmt.Errorf("was asked for as %s and is %s", fetched.Descriptor.Digest, actual)
	}
	if fetched.Descriptor.MediaType != ocispec.MediaTypeImageManifest {
		return ocispec.Manifest{}, fmt.Errorf("mediaType: was sent as %q, want %q", fetched.Descriptor.MediaType, ocispec.MediaTypeImageManifest)
	}
	var document struct {
		ocispec.Manifest `json:",inline"`
		// Manifests is an index's. A document that is both is read by some as the one, by some as the other.
		Manifests json.RawMessage `json:"manifests"`
	}
	doubts, err := kjson.UnmarshalStrict(fetched.Bytes, &document, kjson.DisallowDuplicateFields)
	if err = errors.Join(append(doubts, err)...); err != nil {
		return ocispec.Manifest{}, err
	}
	manifest := document.Manifest
	switch {
	case manifest.MediaType != "" && manifest.MediaType != ocispec.MediaTypeImageManifest:
		return manifest, fmt.Errorf("mediaType: is %q inside and %q outside", manifest.MediaType, ocispec.MediaTypeImageManifest)
	case document.Manifests != nil:
		return manifest, errors.New("manifests: does not belong into an image manifest")
	case manifest.SchemaVersion != 2 || len(manifest.Layers) == 0:
		return manifest, fmt.Errorf("schemaVersion %d with %d layers is not a component version", manifest.SchemaVersion, len(manifest.Layers))
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

func checkBlob(blob ocispec.Descriptor) error {
	if err := blob.Digest.Validate(); err != nil {
		return fmt.Errorf("digest: %q: %w", blob.Digest, err)
	}
	if blob.Size < 0 {
		return fmt.Errorf("size: %d is negative", blob.Size)
	}
	return nil
}

func layerOf(manifest ocispec.Manifest, d digest.Digest) (ocispec.Descriptor, bool) {
	for _, layer := range manifest.Layers {
		if layer.Digest == d {
			return ocispec.Descriptor{MediaType: layer.MediaType, Digest: d, Size: layer.Size}, true
		}
	}
	return ocispec.Descriptor{}, false
}

// readDescriptor follows the config to the descriptor layer.
//
// Source: ocm-spec, doc/04-extensions/03-storage-backends/oci.md, "componentDescriptorLayer".
func readDescriptor(ctx context.Context, repository oras.ReadOnlyTarget, manifest ocispec.Manifest) (ocm.Descriptor, error) {
	config, err := bundle.FetchBlob(ctx, repository, manifest.Config, ocm.MaxDescriptorBytes)
	if err != nil {
		return ocm.Descriptor{}, fmt.Errorf("config: %w", err)
	}
	var pointer struct {
		Layer ocispec.Descriptor `json:"componentDescriptorLayer"`
	}
	if err := json.Unmarshal(config, &pointer); err != nil {
		return ocm.Descriptor{}, fmt.Errorf("config: %w", err)
	}
	layer, ok := layerOf(manifest, pointer.Layer.Digest)
	if !ok {
		return ocm.Descriptor{}, fmt.Errorf("config: componentDescriptorLayer: %q is no layer of the component version", pointer.Layer.Digest)
	}
	data, err := bundle.FetchBlob(ctx, repository, layer, 2*ocm.MaxDescriptorBytes)
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

// CopyTo copies the component version as it is into a repository of the same name below the place, and gives the name under
// which its content can be read there. A version that is there already costs one request.
func (c Component) CopyTo(ctx context.Context, place *bundle.Place) (string, error) {
	name := descriptorsPath + c.Descriptor.Name
	from, err := c.source.Open(c.Descriptor.Name)
	if err != nil {
		return "", err
	}
	to, err := place.Repository(ctx, name)
	if err != nil {
		return "", err
	}
	tag := ocm.Tag(c.Descriptor.Version)
	there, err := bundle.Head(ctx, to, tag)
	if err == nil && there == c.Manifest.Digest {
		return place.Name(name), nil
	}
	if err != nil && !errors.Is(err, bundle.ErrNotFound) {
		return "", fmt.Errorf("look for component %s in %s: %w", c.Descriptor.Name, place, err)
	}
	if err == nil {
		return "", fmt.Errorf("component %s:%s changed under the same version: %s has %s, the source has %s", c.Descriptor.Name, c.Descriptor.Version, place, there, c.Manifest.Digest)
	}
	if _, err := oras.Copy(ctx, from, tag, to, tag, oras.DefaultCopyOptions); err != nil {
		return "", fmt.Errorf("copy component %s:%s to %s: %w", c.Descriptor.Name, c.Descriptor.Version, place, err)
	}
	return place.Name(name), nil
}
