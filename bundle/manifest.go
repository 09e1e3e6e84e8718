package bundle

import (
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// manifestShape has every field that a manifest in this format can have. Strict decoding refuses all other fields.
type manifestShape struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType"`
	Config        descriptorShape   `json:"config"`
	Layers        []descriptorShape `json:"layers"`
	Annotations   map[string]string `json:"annotations"`
}

type descriptorShape struct {
	MediaType string        `json:"mediaType"`
	Digest    digest.Digest `json:"digest"`
	Size      int64         `json:"size"`
	Data      []byte        `json:"data,omitempty"`
}

func (d descriptorShape) descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}
}

// ReadManifest parses a manifest and checks its size, digest, types and annotations. It does not authenticate the
// content.
func ReadManifest(fetched Fetched, artifactType string) (ocispec.Manifest, *refusal.Error) {
	if len(fetched.Bytes) > MaxManifestBytes {
		return ocispec.Manifest{}, refusal.New(refusal.TooLarge, "manifest is larger than %d bytes", MaxManifestBytes)
	}
	if d := fetched.Descriptor.Digest; d != "" && d != digest.FromBytes(fetched.Bytes) {
		return ocispec.Manifest{},
			refusal.New(refusal.WrongDigest, "manifest has digest %[2]s, must be %[1]s", d,
				digest.FromBytes(fetched.Bytes))
	}
	if fetched.Descriptor.MediaType != ocispec.MediaTypeImageManifest {
		return ocispec.Manifest{},
			refusal.New(refusal.MediaType, "the response has media type %q, must be %q", fetched.Descriptor.MediaType,
				ocispec.MediaTypeImageManifest)
	}
	var shape manifestShape
	if err := decodeStrict(fetched.Bytes, &shape); err != nil {
		return ocispec.Manifest{}, refusal.New(refusal.Malformed, "manifest: %w", err)
	}
	if shape.SchemaVersion != 2 || shape.MediaType != ocispec.MediaTypeImageManifest {
		return ocispec.Manifest{},
			refusal.New(refusal.MediaType, "manifest has media type %q and schema version %d, must be %q and 2",
				shape.MediaType, shape.SchemaVersion, ocispec.MediaTypeImageManifest)
	}
	if shape.ArtifactType != artifactType {
		return ocispec.Manifest{},
			refusal.New(refusal.MediaType, "artifact type is %q, must be %q", shape.ArtifactType, artifactType)
	}
	// The signature does not cover annotations. If other annotations were allowed, the registry's owner could create
	// any number of manifests with different digests for the same bundle.
	for name := range shape.Annotations {
		if name != AnnotationAttestation && name != AnnotationReport {
			return ocispec.Manifest{}, refusal.New(refusal.Malformed, "manifest: annotation %q is not allowed", name)
		}
	}
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: shape.MediaType, ArtifactType: shape.ArtifactType,
		Config: shape.Config.descriptor(), Annotations: shape.Annotations,
	}
	for _, layer := range shape.Layers {
		manifest.Layers = append(manifest.Layers, layer.descriptor())
	}
	return manifest, nil
}

func readBundleManifest(fetched Fetched) (ocispec.Manifest, *refusal.Error) {
	manifest, refused := ReadManifest(fetched, ArtifactTypeBundle)
	if refused != nil {
		return manifest, refused
	}
	if len(manifest.Layers) != 1 {
		return manifest, refusal.New(refusal.MediaType,
			"bundle has %d layers, must have exactly one: the catalog", len(manifest.Layers))
	}
	for i, d := range []ocispec.Descriptor{manifest.Config, manifest.Layers[0]} {
		if want := []string{MediaTypeDesiredState, MediaTypeCatalog}[i]; d.MediaType != want {
			return manifest,
				refusal.New(refusal.MediaType, "%s has media type %q, must be %q", blobName(i), d.MediaType, want)
		}
		if d.Size < 0 || d.Size > MaxDocumentBytes {
			return manifest,
				refusal.New(refusal.TooLarge, "%s is %d bytes, must be at most %d", blobName(i), d.Size,
					MaxDocumentBytes)
		}
	}
	return manifest, nil
}

func blobName(i int) string {
	if i == 0 {
		return "config"
	}
	return fmt.Sprintf("layers[%d]", i-1)
}

type statementHeader struct {
	Type          string `json:"_type"`
	PredicateType string `json:"predicateType"`
}

func statementKind(payload []byte) (statementHeader, error) {
	var kind statementHeader
	err := json.Unmarshal(payload, &kind)
	return kind, err
}
