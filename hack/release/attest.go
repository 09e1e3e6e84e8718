package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/errdef"
)

const (
	mediaTypeBill    = "application/vnd.cyclonedx+json"
	mediaTypeBundle  = "application/vnd.dev.sigstore.bundle.v0.3+json"
	mediaTypeInToto  = "application/vnd.in-toto+json"
	statementType    = "https://in-toto.io/Statement/v1"
	predicateSign    = "https://sigstore.dev/cosign/sign/v1"
	predicateBill    = "https://cyclonedx.org/bom"
	predicateSLSA    = "https://slsa.dev/provenance/v1"
	maxAttestation   = 4 << 20
	releaseBuildType = "https://kyma-pull.dev/release/v1"
)

// attach pushes an OCI referrer for an image or chart. It is idempotent.
//
// Source: OCI image-spec 1.1, manifest.md, "subject"; cosign, specs/BUNDLE_SPEC.md.
func (r *release) attach(
	ctx context.Context, to oras.Target, subject ocispec.Descriptor, artifactType string, content []byte,
	annotations map[string]string,
) error {
	layer, err := pushOnce(ctx, to, artifactType, content)
	if err != nil {
		return err
	}
	if _, err := pushOnce(ctx, to, ocispec.MediaTypeEmptyJSON, ocispec.DescriptorEmptyJSON.Data); err != nil {
		return err
	}
	all := map[string]string{ocispec.AnnotationCreated: r.commit.time.UTC().Format(time.RFC3339)}
	for name, value := range annotations {
		all[name] = value
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: artifactType,
		Config:       ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer},
		Subject: &ocispec.Descriptor{
			MediaType: subject.MediaType,
			Digest:    subject.Digest,
			Size:      subject.Size,
		}, Annotations: all,
	})
	if err != nil {
		return err
	}
	_, err = pushOnce(ctx, to, ocispec.MediaTypeImageManifest, manifest)
	return err
}

// pushOnce pushes a blob or manifest unless it exists at the target.
func pushOnce(ctx context.Context, to oras.Target, mediaType string, content []byte) (ocispec.Descriptor, error) {
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	if err := to.Push(ctx, d, bytes.NewReader(content)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return d, err
	}
	return d, nil
}

// sigstoreBundle is a sigstore bundle v0.3 with a public key. It contains a DSSE envelope or a file's signature.
//
// Source: sigstore protobuf-specs, sigstore_bundle.proto.
type sigstoreBundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey struct {
			Hint string `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	Envelope  *dsse.Envelope    `json:"dsseEnvelope,omitempty"`
	Signature *messageSignature `json:"messageSignature,omitempty"`
}

type messageSignature struct {
	MessageDigest struct {
		Algorithm string `json:"algorithm"`
		Digest    []byte `json:"digest"`
	} `json:"messageDigest"`
	Signature []byte `json:"signature"`
}

func (r *release) newBundle() (sigstoreBundle, error) {
	b := sigstoreBundle{MediaType: mediaTypeBundle}
	public, err := x509.MarshalPKIXPublicKey(r.key.Public())
	sum := sha256.Sum256(public)
	b.VerificationMaterial.PublicKey.Hint = base64.StdEncoding.EncodeToString(sum[:])
	return b, err
}

// signedFile returns a sigstore bundle with a file's signature, for `cosign verify-blob --bundle`.
func (r *release) signedFile(data, signature []byte) ([]byte, error) {
	b, err := r.newBundle()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	b.Signature = &messageSignature{Signature: signature}
	b.Signature.MessageDigest.Algorithm, b.Signature.MessageDigest.Digest = "SHA2_256", sum[:]
	return json.Marshal(b)
}

type subject struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

type statement struct {
	Type          string          `json:"_type"`
	Subject       []subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// envelope returns a signed DSSE envelope with an in-toto statement.
func envelope(
	ctx context.Context, with signing, subjects []subject, predicateType string, predicate json.RawMessage,
) (*dsse.Envelope, error) {
	payload, err := json.Marshal(statement{statementType, subjects, predicateType, predicate})
	if err != nil {
		return nil, err
	}
	return with.statement(ctx, payload)
}

// writeAttestations signs images and charts, and attests each image's bill of materials and provenance. Each line of
// the file is a sigstore bundle. The OCI image layout does not contain signatures, so the layout does not depend on
// the key.
func (r *release) writeAttestations(ctx context.Context, with signing) error {
	var lines bytes.Buffer
	for _, name := range ociArtifacts() {
		built, ok := r.built[name]
		if !ok {
			continue
		}
		predicates := map[string]json.RawMessage{predicateSign: json.RawMessage(`{}`)}
		if slices.Contains(programs, name) {
			bill, err := os.ReadFile(r.billOf(name))
			if err != nil {
				return err
			}
			predicates[predicateBill] = bill
			if predicates[predicateSLSA], err = r.slsa(); err != nil {
				return err
			}
		}
		for _, predicateType := range []string{predicateSign, predicateBill, predicateSLSA} {
			predicate, wanted := predicates[predicateType]
			if !wanted {
				continue
			}
			b, err := r.newBundle()
			if err != nil {
				return err
			}
			at := []subject{{Digest: map[string]string{"sha256": built.Digest.Encoded()}}}
			if b.Envelope, err = envelope(ctx, with, at, predicateType, predicate); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			line, err := json.Marshal(b)
			if err != nil {
				return err
			}
			lines.Write(append(line, '\n'))
		}
	}
	return os.WriteFile(filepath.Join(r.dir, attestationsFile(r.version)), lines.Bytes(), 0o644)
}

// attestation is one line in the release's attestations file.
type attestation struct {
	bundle        []byte
	predicateType string
	subject       digest.Digest
}

// readAttestations returns the attestations of a release. A release without a key has no attestations.
func (r *release) readAttestations() ([]attestation, error) {
	file, err := os.Open(filepath.Join(r.dir, attestationsFile(r.version)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []attestation
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxAttestation)
	for lines.Scan() {
		var b sigstoreBundle
		if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		if b.Envelope == nil {
			return nil, fmt.Errorf("%s has a line without a DSSE envelope", file.Name())
		}
		payload, err := b.Envelope.DecodeB64Payload()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		var s statement
		if err := json.Unmarshal(payload, &s); err != nil {
			return nil, fmt.Errorf("%s: statement: %w", file.Name(), err)
		}
		if len(s.Subject) != 1 {
			return nil, fmt.Errorf("%s has a statement with %d subjects, expected one", file.Name(), len(s.Subject))
		}
		all = append(
			all,
			attestation{
				slices.Clone(lines.Bytes()),
				s.PredicateType,
				digest.NewDigestFromEncoded(digest.SHA256, s.Subject[0].Digest["sha256"]),
			},
		)
	}
	return all, lines.Err()
}

// pushAttestations attaches the attestations of one image or chart.
func (r *release) pushAttestations(
	ctx context.Context, all []attestation, to oras.Target, subject ocispec.Descriptor,
) error {
	for _, a := range all {
		if a.subject != subject.Digest {
			continue
		}
		annotations := map[string]string{
			"dev.sigstore.bundle.content":       "dsse-envelope",
			"dev.sigstore.bundle.predicateType": a.predicateType,
		}
		if err := r.attach(ctx, to, subject, mediaTypeBundle, a.bundle, annotations); err != nil {
			return fmt.Errorf("attach %s: %w", a.predicateType, err)
		}
	}
	return nil
}
