package sample

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// WriteArchive writes versions as a common transport archive into a folder.
//
// Source: ocm-spec, doc/04-extensions/03-storage-backends/ctf.md.
func WriteArchive(ctx context.Context, dir string, versions ...Version) error {
	if err := os.MkdirAll(filepath.Join(dir, "blobs"), 0o755); err != nil {
		return err
	}
	var artifacts []map[string]string
	for _, v := range versions {
		held := memory.New()
		if err := v.push(ctx, held); err != nil {
			return err
		}
		manifest, err := store.Fetch(ctx, held, v.Version)
		if err != nil {
			return err
		}
		var image ocispec.Manifest
		if err := json.Unmarshal(manifest.Bytes, &image); err != nil {
			return err
		}
		for _, d := range append([]ocispec.Descriptor{manifest.Descriptor, image.Config}, image.Layers...) {
			if err := writeBlob(ctx, held, dir, d); err != nil {
				return err
			}
		}
		artifacts = append(artifacts, map[string]string{
			"repository": "component-descriptors/" + v.Component(), "tag": v.Version,
			"digest": manifest.Descriptor.Digest.String(), "mediaType": manifest.Descriptor.MediaType,
		})
	}
	index, err := json.MarshalIndent(map[string]any{"schemaVersion": 1, "artifacts": artifacts}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "artifact-index.json"), append(index, '\n'), 0o644)
}

func writeBlob(ctx context.Context, store *memory.Store, dir string, d ocispec.Descriptor) error {
	body, err := store.Fetch(ctx, d)
	if err != nil {
		return err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "blobs", blobName(d.Digest)), data, 0o644)
}

func blobName(d digest.Digest) string { return fmt.Sprintf("%s.%s", d.Algorithm(), d.Encoded()) }
