package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Media types that `flux push artifact` uses.
const (
	mediaTypeFluxConfig  = "application/vnd.cncf.flux.config.v1+json"
	mediaTypeFluxContent = "application/vnd.cncf.flux.content.v1.tar+gzip"
	tag                  = "latest"
)

// pushArtifact pushes files as a Flux OCI artifact and returns the artifact's digest.
func pushArtifact(ctx context.Context, place store.Store, name string, files map[string]string) (digest.Digest, error) {
	archive, err := archived(files)
	if err != nil {
		return "", err
	}
	repository, err := place.Repository(ctx, name)
	if err != nil {
		return "", err
	}
	config, content := bundle.NewBlob(mediaTypeFluxConfig, []byte("{}")), bundle.NewBlob(mediaTypeFluxContent, archive)
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config.Descriptor, Layers: []ocispec.Descriptor{content.Descriptor},
	})
	if err != nil {
		return "", err
	}
	for _, blob := range []bundle.Blob{config, content} {
		if err := store.PushBlob(ctx, repository, blob); err != nil {
			return "", err
		}
	}
	manifest := bundle.NewBlob(ocispec.MediaTypeImageManifest, data)
	return manifest.Descriptor.Digest, store.PushManifest(ctx, repository, manifest, tag)
}

func archived(files map[string]string) ([]byte, error) {
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(files[name])); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}
