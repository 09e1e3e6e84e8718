package bundle

import (
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Blob is content with its descriptor.
type Blob struct {
	Descriptor ocispec.Descriptor
	Bytes      []byte
}

// NewBlob describes data.
func NewBlob(mediaType string, data []byte) Blob {
	return Blob{Descriptor: ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}, Bytes: data}
}

// Documents are what a bundle carries without naming a runtime: the two shared blobs.
type Documents struct {
	State   Blob
	Catalog Blob
}

// NewDocuments encodes state and catalog.
func NewDocuments(state DesiredState, catalog Catalog) (Documents, error) {
	stateBytes, err := EncodeDesiredState(state)
	if err != nil {
		return Documents{}, fmt.Errorf("encode desired state: %w", err)
	}
	catalogBytes, err := EncodeCatalog(catalog)
	if err != nil {
		return Documents{}, fmt.Errorf("encode catalog: %w", err)
	}
	if len(stateBytes) > MaxDocumentBytes || len(catalogBytes) > MaxDocumentBytes {
		return Documents{}, fmt.Errorf("desired state of %d and catalog of %d bytes, at most %d each", len(stateBytes), len(catalogBytes), MaxDocumentBytes)
	}
	return Documents{State: NewBlob(MediaTypeDesiredState, stateBytes), Catalog: NewBlob(MediaTypeCatalog, catalogBytes)}, nil
}

// Compose signs the predicate over the documents and gives the bundle's manifest, ready to be pushed.
func Compose(documents Documents, predicate Predicate, signer trust.Signer) (Blob, error) {
	attestation, err := attest(Statement{
		Type:          StatementType,
		Subject:       []Subject{subjectOf(blobName(0), documents.State.Descriptor.Digest), subjectOf(blobName(1), documents.Catalog.Descriptor.Digest)},
		PredicateType: PredicateDesiredState,
		Predicate:     predicate,
	}, signer)
	if err != nil {
		return Blob{}, err
	}
	return NewManifest(ocispec.Manifest{
		ArtifactType: ArtifactTypeBundle,
		Config:       documents.State.Descriptor,
		Layers:       []ocispec.Descriptor{documents.Catalog.Descriptor},
		Annotations:  map[string]string{AnnotationAttestation: string(attestation)},
	})
}

// NewManifest returns an image manifest, encoded.
func NewManifest(manifest ocispec.Manifest) (Blob, error) {
	manifest.Versioned = specs.Versioned{SchemaVersion: 2}
	manifest.MediaType = ocispec.MediaTypeImageManifest
	data, err := json.Marshal(manifest)
	if err != nil {
		return Blob{}, err
	}
	if len(data) > MaxManifestBytes {
		return Blob{}, fmt.Errorf("manifest of %d bytes, at most %d", len(data), MaxManifestBytes)
	}
	return NewBlob(ocispec.MediaTypeImageManifest, data), nil
}
