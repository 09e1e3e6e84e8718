package ocm

import (
	"crypto"
	_ "crypto/sha256" // implements the hash functions of package digest
	_ "crypto/sha512"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// ErrNotCovered means that the component descriptor does not contain a digest for a resource's content.
var ErrNotCovered = errors.New("no digest covers the content")

// ErrMismatch means that a resource's content does not match the digest in the component descriptor.
var ErrMismatch = errors.New("content does not match the component's digest")

const (
	genericBlobDigest   = "genericBlobDigest/v1"
	ociArtifactDigest   = "ociArtifactDigest/v1"
	ociArtefactDigest   = "ociArtefactDigest/v1"
	excluded            = "EXCLUDE-FROM-SIGNATURE"
	excludedNoAlgorithm = "NO-DIGEST"
)

// IsCovered reports whether d contains a digest. It returns false for nil and for the placeholder that marks a resource
// as excluded from the component's signature.
func (d *Digest) IsCovered() bool {
	return d != nil && d.Value != "" && d.NormalisationAlgorithm != excluded &&
		d.HashAlgorithm != excludedNoAlgorithm && d.Value != excludedNoAlgorithm
}

// IsArtifactDigest reports whether d is the digest of an OCI manifest or index, not of the resource's bytes.
func (d *Digest) IsArtifactDigest() bool {
	return d.IsCovered() &&
		(d.NormalisationAlgorithm == ociArtifactDigest || d.NormalisationAlgorithm == ociArtefactDigest)
}

// IsSHA256 reports whether the digest's hash algorithm is SHA-256.
func (d *Digest) IsSHA256() bool {
	hash, err := cryptoHash(d.HashAlgorithm)
	return err == nil && hash == crypto.SHA256
}

// IsImage reports whether the resource's type denotes a container image.
func (r Resource) IsImage() bool {
	return slices.ContainsFunc([]string{"ociImage", "ociArtifact", "ociArtefact", "dockerImage"},
		func(k string) bool { return strings.EqualFold(k, r.Type) })
}

// CheckContent compares a resource's content with the resource's digest. For an artifact set, it compares the digest of
// the main manifest. The error wraps ErrNotCovered if the resource has no digest, and ErrMismatch if the digests do not
// match.
//
// Source: ocm-spec, doc/04-extensions/04-algorithms/digest-algorithms.md.
func CheckContent(r Resource, content []byte) error {
	if !r.Digest.IsCovered() {
		return fmt.Errorf("resource %q: %w", r.Name, ErrNotCovered)
	}
	switch r.Digest.NormalisationAlgorithm {
	case genericBlobDigest:
		actual, err := hexHash(r.Digest.HashAlgorithm, content)
		if err != nil {
			return fmt.Errorf("resource %q: digest.hashAlgorithm: %w", r.Name, err)
		}
		return r.checkDigest(actual)
	case ociArtifactDigest, ociArtefactDigest:
		set, err := OpenArtifactSet(content)
		if err != nil {
			return fmt.Errorf("resource %q: %w", r.Name, err)
		}
		if err := CheckArtifact(r, set.Main.Digest); err != nil {
			return err
		}
		if _, err := set.Blob(set.Main.Digest); err != nil {
			return fmt.Errorf("resource %q: %w: %w", r.Name, ErrMismatch, err)
		}
		return nil
	}
	return fmt.Errorf("resource %q: digest.normalisationAlgorithm: %q is not supported", r.Name,
		r.Digest.NormalisationAlgorithm)
}

// CheckArtifact compares the digest of a fetched OCI manifest with the resource's digest. The error wraps ErrNotCovered
// if the resource has no digest.
func CheckArtifact(r Resource, manifest digest.Digest) error {
	if !r.Digest.IsCovered() {
		return fmt.Errorf("resource %q: %w", r.Name, ErrNotCovered)
	}
	if a := r.Digest.NormalisationAlgorithm; !r.Digest.IsArtifactDigest() {
		return fmt.Errorf("resource %q: digest.normalisationAlgorithm: %q is not an algorithm for OCI artifacts",
			r.Name, a)
	}
	if err := manifest.Validate(); err != nil {
		return fmt.Errorf("resource %q: manifest %q: %w", r.Name, manifest, err)
	}
	if hash, err := cryptoHash(r.Digest.HashAlgorithm); err != nil {
		return fmt.Errorf("resource %q: digest.hashAlgorithm: %w", r.Name, err)
	} else if manifest.Algorithm() != hashAlgorithms[hash] {
		return fmt.Errorf("resource %q has a %s digest, but the artifact has a %s digest", r.Name,
			r.Digest.HashAlgorithm, manifest.Algorithm())
	}
	return r.checkDigest(manifest.Encoded())
}

func (r Resource) checkDigest(actual string) error {
	if !strings.EqualFold(actual, r.Digest.Value) {
		return fmt.Errorf("resource %q: %w: its digest is %s, but the component lists %s", r.Name, ErrMismatch, actual,
			r.Digest.Value)
	}
	return nil
}

var hashAlgorithms = map[crypto.Hash]digest.Algorithm{crypto.SHA256: digest.SHA256, crypto.SHA512: digest.SHA512}

func cryptoHash(algorithm string) (crypto.Hash, error) {
	switch algorithm {
	case "SHA-256", "sha256":
		return crypto.SHA256, nil
	case "SHA-512", "sha512":
		return crypto.SHA512, nil
	}
	return 0, fmt.Errorf("hash algorithm %q is not supported: must be SHA-256 or SHA-512", algorithm)
}

func hexHash(algorithm string, data []byte) (string, error) {
	hash, err := cryptoHash(algorithm)
	if err != nil {
		return "", err
	}
	return hashAlgorithms[hash].FromBytes(data).Encoded(), nil
}
