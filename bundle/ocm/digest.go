package ocm

import (
	"crypto"
	_ "crypto/sha256" // registers what digest.Algorithm computes with
	_ "crypto/sha512"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// ErrNotCovered says that a resource has no digest that its content could be compared with: no signature covers the
// content.
var ErrNotCovered = errors.New("no digest covers the content")

// ErrDiffers says that a content is not what the component says it is.
var ErrDiffers = errors.New("content is not what the component says")

const (
	genericBlobDigest   = "genericBlobDigest/v1"
	ociArtifactDigest   = "ociArtifactDigest/v1"
	ociArtefactDigest   = "ociArtefactDigest/v1" // how it was spelt once
	excluded            = "EXCLUDE-FROM-SIGNATURE"
	excludedNoAlgorithm = "NO-DIGEST"
)

// Covered reports whether a digest says anything of the content.
func (d *Digest) Covered() bool {
	return d != nil && d.Value != "" && d.NormalisationAlgorithm != excluded && d.HashAlgorithm != excludedNoAlgorithm && d.Value != excludedNoAlgorithm
}

// OfArtifact reports whether the digest is that of an OCI manifest: of a blob that holds the artifact it covers the
// artifact only, and nothing else that is in the blob.
func (d *Digest) OfArtifact() bool {
	return d.Covered() && (d.NormalisationAlgorithm == ociArtifactDigest || d.NormalisationAlgorithm == ociArtefactDigest)
}

// IsSHA256 reports whether the digest's hash is SHA-256.
func (d *Digest) IsSHA256() bool {
	hash, err := cryptoHash(d.HashAlgorithm)
	return err == nil && hash == crypto.SHA256
}

// IsImage tells container images from other resources, by the type, which a signature covers.
func (r Resource) IsImage() bool {
	return slices.ContainsFunc([]string{"ociImage", "ociArtifact", "ociArtefact", "dockerImage"}, func(k string) bool { return strings.EqualFold(k, r.Type) })
}

// CheckContent compares the content of a resource with its digest: that of the bytes, or, for an artifact set, that of
// its main artifact. Of a set, what the main artifact refers to is compared when ArtifactSet.Blob gives it, and what it
// does not refer to is nobody's. The error is ErrNotCovered when there is nothing to compare with, ErrDiffers when
// content and digest differ.
//
// Source: ocm-spec, doc/04-extensions/04-algorithms/digest-algorithms.md.
func CheckContent(r Resource, content []byte) error {
	if !r.Digest.Covered() {
		return fmt.Errorf("resource %q: %w", r.Name, ErrNotCovered)
	}
	switch r.Digest.NormalisationAlgorithm {
	case genericBlobDigest:
		actual, err := hexHash(r.Digest.HashAlgorithm, content)
		if err != nil {
			return fmt.Errorf("resource %q: digest.hashAlgorithm: %w", r.Name, err)
		}
		return r.same(actual)
	case ociArtifactDigest, ociArtefactDigest:
		set, err := OpenArtifactSet(content)
		if err != nil {
			return fmt.Errorf("resource %q: %w", r.Name, err)
		}
		if err := CheckArtifact(r, set.Main.Digest); err != nil {
			return err
		}
		if _, err := set.Blob(set.Main.Digest); err != nil {
			return fmt.Errorf("resource %q: %w: %w", r.Name, ErrDiffers, err)
		}
		return nil
	}
	return fmt.Errorf("resource %q: digest.normalisationAlgorithm: %q is not supported", r.Name, r.Digest.NormalisationAlgorithm)
}

// CheckArtifact compares the digest of an OCI manifest with that of the resource. The error is ErrNotCovered when there
// is nothing to compare with.
func CheckArtifact(r Resource, manifest digest.Digest) error {
	if !r.Digest.Covered() {
		return fmt.Errorf("resource %q: %w", r.Name, ErrNotCovered)
	}
	if a := r.Digest.NormalisationAlgorithm; !r.Digest.OfArtifact() {
		return fmt.Errorf("resource %q: digest.normalisationAlgorithm: %q is not that of an OCI artifact", r.Name, a)
	}
	if err := manifest.Validate(); err != nil {
		return fmt.Errorf("resource %q: manifest %q: %w", r.Name, manifest, err)
	}
	if hash, err := cryptoHash(r.Digest.HashAlgorithm); err != nil {
		return fmt.Errorf("resource %q: digest.hashAlgorithm: %w", r.Name, err)
	} else if manifest.Algorithm() != hashes[hash] {
		return fmt.Errorf("resource %q: has a digest by %s, the artifact is known by %s", r.Name, r.Digest.HashAlgorithm, manifest.Algorithm())
	}
	return r.same(manifest.Encoded())
}

func (r Resource) same(actual string) error {
	if !strings.EqualFold(actual, r.Digest.Value) {
		return fmt.Errorf("resource %q: %w: its digest is %s, the component has %s", r.Name, ErrDiffers, actual, r.Digest.Value)
	}
	return nil
}

var hashes = map[crypto.Hash]digest.Algorithm{crypto.SHA256: digest.SHA256, crypto.SHA512: digest.SHA512}

// cryptoHash reads the name of a hash algorithm; old tools wrote it in small letters.
func cryptoHash(algorithm string) (crypto.Hash, error) {
	switch algorithm {
	case "SHA-256", "sha256":
		return crypto.SHA256, nil
	case "SHA-512", "sha512":
		return crypto.SHA512, nil
	}
	return 0, fmt.Errorf("hash algorithm %q is not supported: want SHA-256 or SHA-512", algorithm)
}

func hexHash(algorithm string, data []byte) (string, error) {
	hash, err := cryptoHash(algorithm)
	if err != nil {
		return "", err
	}
	return hashes[hash].FromBytes(data).Encoded(), nil
}
