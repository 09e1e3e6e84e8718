package ocm

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The algorithms and encodings of signatures.
//
// Source: ocm-spec, doc/04-extensions/04-algorithms/signing-algorithms.md.
const (
	AlgorithmPKCS1 = "RSASSA-PKCS1-V1_5"
	AlgorithmPSS   = "RSASSA-PSS"

	mediaTypeRSA = "application/vnd.ocm.signature.rsa"
	mediaTypePSS = "application/vnd.ocm.signature.rsa.pss"
	mediaTypePEM = "application/x-pem-file"

	pemSignature     = "SIGNATURE"
	pemAlgorithmName = "Signature Algorithm"
)

const (
	maxChain          = 8
	maxSignatureBytes = 64 << 10
)

// CheckSignature reports whether a signature is genuine and about this descriptor. What the descriptor refers to is
// covered only by digests: the caller compares contents (CheckContent, CheckArtifact) and the descriptors of references
// (DigestOf). The error names the signature and the reason.
func (d Descriptor) CheckSignature(s Signature, trust Trust, now time.Time) error {
	// First the key, so that strangers cannot make us normalize.
	if err := s.Verify(trust, now); err != nil {
		return err
	}
	actual, err := DigestOf(d, s.Digest.NormalisationAlgorithm, s.Digest.HashAlgorithm)
	if err != nil {
		return fmt.Errorf("signature %q: %w", s.Name, err)
	}
	if !strings.EqualFold(actual, s.Digest.Value) {
		return fmt.Errorf("signature %q: is about another descriptor: digest is %s, signed was %s", s.Name, actual, s.Digest.Value)
	}
	return nil
}

// Verify reports whether one of the trusted keys made the signature over its own digest; what the digest is of, it does
// not tell. A signature with certificates is made by the first one's key, which must be trusted itself or be vouched
// for by one of the authorities at the time now. The error names the signature and the reason.
func (s Signature) Verify(trust Trust, now time.Time) error {
	if err := s.verify(trust, now); err != nil {
		return fmt.Errorf("signature %q: %w", s.Name, err)
	}
	return nil
}

func (s Signature) verify(trust Trust, now time.Time) error {
	if len(s.Value) > maxSignatureBytes {
		return fmt.Errorf("value of %d bytes, at most %d", len(s.Value), maxSignatureBytes)
	}
	digest, err := hex.DecodeString(s.Digest.Value)
	if err != nil {
		return fmt.Errorf("digest.value: %w", err)
	}
	hash, err := cryptoHash(s.Digest.HashAlgorithm)
	if err != nil {
		return err
	}
	if len(digest) != hash.Size() {
		return fmt.Errorf("digest.value: has %d bytes, want %d", len(digest), hash.Size())
	}
	if s.Algorithm != AlgorithmPKCS1 && s.Algorithm != AlgorithmPSS {
		return fmt.Errorf("algorithm %q is not supported: want %s or %s", s.Algorithm, AlgorithmPKCS1, AlgorithmPSS)
	}
	keys, value := trust.Keys, []byte(nil)
	switch {
	case s.MediaType == mediaTypePEM:
		if keys, value, err = s.chain(trust, now); err != nil {
			return err
		}
	case s.MediaType == mediaTypeRSA && s.Algorithm == AlgorithmPKCS1, s.MediaType == mediaTypePSS && s.Algorithm == AlgorithmPSS:
		if value, err = hex.DecodeString(s.Value); err != nil {
			return fmt.Errorf("value: %w", err)
		}
	default:
		return fmt.Errorf("mediaType %q does not go with algorithm %s", s.MediaType, s.Algorithm)
	}
	if len(keys) == 0 {
		return errors.New("there is no public key for it, only certificates, and it carries none")
	}
	for _, key := range keys {
		if checkKey(key) == nil && made(s.Algorithm, key, hash, digest, value) {
			return nil
		}
	}
	return errors.New("was not made by any of the trusted keys")
}

func made(algorithm string, key *rsa.PublicKey, hash crypto.Hash, digest, value []byte) bool {
	if algorithm == AlgorithmPSS {
		// The official tool takes the longest salt there is room for, not the length of the hash.
		return rsa.VerifyPSS(key, hash, digest, value, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto}) == nil
	}
	return rsa.VerifyPKCS1v15(key, hash, digest, value) == nil
}

// chain takes signature and certificates out of the PEM form, and gives the key that may count: the leaf's if a trusted
// authority vouches for it, or if it is a trusted key itself.
func (s Signature) chain(trust Trust, now time.Time) ([]*rsa.PublicKey, []byte, error) {
	value, certificates, err := decodePEM(s)
	if err != nil {
		return nil, nil, err
	}
	if len(certificates) == 0 {
		return trust.Keys, value, nil
	}
	leaf := certificates[0]
	key, ok := leaf.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, nil, fmt.Errorf("certificate of %s: key of type %T is not supported: want RSA", leaf.Subject, leaf.PublicKey)
	}
	for _, known := range trust.Keys {
		if known.Equal(key) {
			return []*rsa.PublicKey{key}, value, nil
		}
	}
	if err := vouched(certificates, trust, s.Name, now); err != nil {
		return nil, nil, err
	}
	return []*rsa.PublicKey{key}, value, nil
}

func decodePEM(s Signature) (value []byte, certificates []*x509.Certificate, err error) {
	text := strings.TrimSpace(s.Value)
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != pemSignature || !strings.HasPrefix(text, "-----BEGIN "+pemSignature) {
		return nil, nil, errors.New("value: does not begin with a PEM block SIGNATURE")
	}
	if named := block.Headers[pemAlgorithmName]; named != s.Algorithm {
		return nil, nil, fmt.Errorf("value: the PEM header says %q, algorithm is %q", named, s.Algorithm)
	}
	value = block.Bytes
	for block, rest = pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(certificates) == maxChain {
			return nil, nil, fmt.Errorf("value: want at most %d CERTIFICATE blocks after the signature, found %q", maxChain, block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("value: certificate: %w", err)
		}
		// Before anything is computed with a key that a stranger chose.
		if err := checkCertificate(certificate); err != nil {
			return nil, nil, fmt.Errorf("value: %w", err)
		}
		certificates = append(certificates, certificate)
	}
	if strings.TrimSpace(string(rest)) != "" {
		return nil, nil, errors.New("value: holds something that is not PEM after the last block")
	}
	return value, certificates, nil
}

// vouched reports whether a pinned authority vouches for the leaf. Nothing that came with the signature is an
// authority.
func vouched(certificates []*x509.Certificate, trust Trust, name string, now time.Time) error {
	if len(trust.Roots) == 0 {
		return errors.New("carries a certificate, and there is no authority that could vouch for it")
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, root := range trust.Roots {
		roots.AddCert(root)
	}
	leaf := certificates[0]
	for i, c := range certificates {
		if i > 0 && slices.ContainsFunc(trust.Roots, c.Equal) {
			continue // the official tool repeats the authority
		}
		if signsItself(c) {
			return fmt.Errorf("certificate of %s signs itself: trust its key or its authority, those of a signature are not taken", c.Subject)
		}
		if i > 0 {
			intermediates.AddCert(c)
		}
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	})
	if err != nil {
		return fmt.Errorf("certificate of %s: %w", leaf.Subject, err)
	}
	// A certificate without key usages is for all of them (RFC 5280, 4.2.1.3).
	if leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return fmt.Errorf("certificate of %s: is not for digital signatures", leaf.Subject)
	}
	wanted := trust.Subject
	if wanted == "" {
		wanted = name
	}
	if leaf.Subject.CommonName != wanted {
		return fmt.Errorf("certificate is of %q, want %q", leaf.Subject.CommonName, wanted)
	}
	return nil
}

// signsItself holds for certificates that are no authorities too, which CheckSignatureFrom does not look at.
func signsItself(c *x509.Certificate) bool {
	return bytes.Equal(c.RawIssuer, c.RawSubject) && c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}
