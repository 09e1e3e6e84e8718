package ocm

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
)

// ErrNotCovered says that a resource has no digest that its content could be compared with: no signature covers the content.
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

// Covered tells whether a digest says anything of the content.
func (d *Digest) Covered() bool {
	return d != nil && d.Value != "" && d.NormalisationAlgorithm != excluded && d.HashAlgorithm != excludedNoAlgorithm && d.Value != excludedNoAlgorithm
}

// CheckContent compares the content of a resource with its digest: that of the bytes, or, for an artifact set, that of its main
// artifact. The error is ErrNotCovered when there is nothing to compare with.
//
// Source: ocm-spec, doc/04-extensions/04-algorithms/digest-algorithms.md.
func CheckContent(r Resource, content []byte) error {
	if !r.Digest.Covered() {
		return fmt.Errorf("resource %q: %w", r.Name, ErrNotCovered)
	}
	switch r.Digest.NormalisationAlgorithm {
	case genericBlobDigest:
		hasher, err := hasherOf(r.Digest.HashAlgorithm)
		if err != nil {
			return fmt.Errorf("resource %q: digest.hashAlgorithm: %w", r.Name, err)
		}
		hasher.Write(content)
		return r.same(hex.EncodeToString(hasher.Sum(nil)))
	case ociArtifactDigest, ociArtefactDigest:
		set, err := OpenArtifactSet(content)
		if err != nil {
			return fmt.Errorf("resource %q: %w", r.Name, err)
		}
		return CheckArtifact(r, set.Main.Digest)
	}
	return fmt.Errorf("resource %q: digest.normalisationAlgorithm: %q is not supported", r.Name, r.Digest.NormalisationAlgorithm)
}

// CheckArtifact compares the digest of an OCI manifest with that of the resource. The error is ErrNotCovered when there is
// nothing to compare with.
func CheckArtifact(r Resource, manifest digest.Digest) error {
	if !r.Digest.Covered() {
		return fmt.Errorf("resource %q: %w", r.Name, ErrNotCovered)
	}
	if a := r.Digest.NormalisationAlgorithm; a != ociArtifactDigest && a != ociArtefactDigest {
		return fmt.Errorf("resource %q: digest.normalisationAlgorithm: %q is not that of an OCI artifact", r.Name, a)
	}
	if want := strings.ToLower(strings.ReplaceAll(r.Digest.HashAlgorithm, "-", "")); manifest.Algorithm().String() != want {
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
