package bundle

import (
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Blob is an OCI blob's content with its descriptor.
type Blob struct {
	Descriptor ocispec.Descriptor
	Bytes      []byte
}

// NewBlob returns data as a Blob. It computes the digest and the size.
func NewBlob(mediaType string, data []byte) Blob {
	return Blob{
		Descriptor: ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))},
		Bytes:      data,
	}
}

// Documents are a bundle's desired state and catalog. Runtimes with the same modules share them.
type Documents struct {
	State   Blob
	Catalog Blob
}

// NewDocuments encodes a desired state and a catalog. It returns a *RefusedDocument if an agent would refuse one of
// them.
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
		return Documents{},
			&RefusedDocument{Err: fmt.Errorf(
				"desired state is %d bytes and catalog is %d bytes, each must be at most %d",
				len(stateBytes), len(catalogBytes), MaxDocumentBytes)}
	}
	if _, err := DecodeDesiredState(stateBytes); err != nil {
		return Documents{}, &RefusedDocument{Err: err}
	}
	if _, err := DecodeCatalog(catalogBytes); err != nil {
		return Documents{}, &RefusedDocument{Err: err}
	}
	return Documents{State: NewBlob(MediaTypeDesiredState, stateBytes),
		Catalog: NewBlob(MediaTypeCatalog, catalogBytes)}, nil
}

// RefusedDocument is the error for a document that an agent would refuse.
type RefusedDocument struct {
	// Err is the agent's decoding error. It names the field.
	Err error
}

func (e *RefusedDocument) Error() string { return "an agent would refuse the bundle: " + e.Err.Error() }

func (e *RefusedDocument) Unwrap() error { return e.Err }

// Compose signs the predicate and documents, and returns the bundle's manifest. It returns a *RefusedDocument if an
// agent would refuse the statement.
func Compose(documents Documents, predicate Predicate, signer trust.Signer) (Blob, error) {
	attestation, err := attest(Statement{
		Type: StatementType,
		Subject: []Subject{
			newSubject(blobName(0), documents.State.Descriptor.Digest),
			newSubject(blobName(1), documents.Catalog.Descriptor.Digest),
		},
		PredicateType: PredicateDesiredState,
		Predicate:     predicate,
	}, signer)
	if err != nil {
		return Blob{}, err
	}
	if refused := checkStatement(attestation); refused != nil {
		return Blob{}, &RefusedDocument{Err: refused}
	}
	return NewManifest(ocispec.Manifest{
		ArtifactType: ArtifactTypeBundle,
		Config:       documents.State.Descriptor,
		Layers:       []ocispec.Descriptor{documents.Catalog.Descriptor},
		Annotations:  map[string]string{AnnotationAttestation: string(attestation)},
	})
}

// checkStatement decodes an attestation as an agent does, but does not verify its signature.
func checkStatement(data []byte) *refusal.Error {
	signed, refused := readAttestation(data)
	if refused != nil {
		return refused
	}
	_, refused = decodeBundleStatement(signed.Envelope.Payload)
	return refused
}

// NewManifest returns an encoded image manifest.
func NewManifest(manifest ocispec.Manifest) (Blob, error) {
	manifest.Versioned = specs.Versioned{SchemaVersion: 2}
	manifest.MediaType = ocispec.MediaTypeImageManifest
	data, err := json.Marshal(manifest)
	if err != nil {
		return Blob{}, err
	}
	if len(data) > MaxManifestBytes {
		return Blob{}, fmt.Errorf("manifest is %d bytes, must be at most %d", len(data), MaxManifestBytes)
	}
	return NewBlob(ocispec.MediaTypeImageManifest, data), nil
}

// EmptyBlob returns the blob for the OCI empty descriptor.
func EmptyBlob() Blob { return NewBlob(ocispec.MediaTypeEmptyJSON, []byte(`{}`)) }
