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

// Signature algorithms and media types of signatures.
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

// CheckSignature returns an error unless a trusted key signed this descriptor. The descriptor contains only the digests
// of its resources and referenced descriptors. The caller must check the content itself with CheckContent,
// CheckArtifact and DigestOf.
func (d Descriptor) CheckSignature(s Signature, trust Trust, now time.Time) error {
	// Check the key before the expensive normalization.
	if err := s.Verify(trust, now); err != nil {
		return err
	}
	actual, err := DigestOf(d, s.Digest.NormalisationAlgorithm, s.Digest.HashAlgorithm)
	if err != nil {
		return fmt.Errorf("signature %q: %w", s.Name, err)
	}
	if !strings.EqualFold(actual, s.Digest.Value) {
		return fmt.Errorf(
			"signature %q is for another descriptor: it covers digest %s, but this descriptor has digest %s",
			s.Name, s.Digest.Value, actual)
	}
	return nil
}

// Verify returns an error unless a trusted key signed the digest in the signature. A key in a certificate is trusted if
// a trusted authority issued the certificate and the certificate is valid at the given time. Verify does not compare
// the digest with a descriptor.
func (s Signature) Verify(trust Trust, now time.Time) error {
	if err := s.verify(trust, now); err != nil {
		return fmt.Errorf("signature %q: %w", s.Name, err)
	}
	return nil
}

func (s Signature) verify(trust Trust, now time.Time) error {
	if len(s.Value) > maxSignatureBytes {
		return fmt.Errorf("value is %d bytes, must be at most %d", len(s.Value), maxSignatureBytes)
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
		return fmt.Errorf("digest.value is %d bytes, must be %d", len(digest), hash.Size())
	}
	if s.Algorithm != AlgorithmPKCS1 && s.Algorithm != AlgorithmPSS {
		return fmt.Errorf("algorithm %q is not supported: must be %s or %s", s.Algorithm, AlgorithmPKCS1, AlgorithmPSS)
	}
	keys, value := trust.Keys, []byte(nil)
	switch {
	case s.MediaType == mediaTypePEM:
		if keys, value, err = s.parseChain(trust, now); err != nil {
			return err
		}
	case s.MediaType == mediaTypeRSA && s.Algorithm == AlgorithmPKCS1, s.MediaType == mediaTypePSS &&
		s.Algorithm == AlgorithmPSS:
		if value, err = hex.DecodeString(s.Value); err != nil {
			return fmt.Errorf("value: %w", err)
		}
	default:
		return fmt.Errorf("mediaType %q does not match algorithm %s", s.MediaType, s.Algorithm)
	}
	if len(keys) == 0 {
		return errors.New("no public key is trusted, and the signature contains no certificate")
	}
	for _, key := range keys {
		if checkKey(key) == nil && isSignedBy(s.Algorithm, key, hash, digest, value) {
			return nil
		}
	}
	return errors.New("not made by any of the trusted keys")
}

func isSignedBy(algorithm string, key *rsa.PublicKey, hash crypto.Hash, digest, value []byte) bool {
	if algorithm == AlgorithmPSS {
		// The official OCM tool uses the longest possible salt, not a salt with the length of the hash.
		return rsa.VerifyPSS(key, hash, digest, value, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto}) == nil
	}
	return rsa.VerifyPKCS1v15(key, hash, digest, value) == nil
}

// parseChain parses a PEM signature with its certificates. It returns the signature's bytes and the keys that could
// have signed them: the key in the first certificate or, without certificates, all trusted keys. The first certificate
// must contain a trusted key or be issued by a trusted authority.
func (s Signature) parseChain(trust Trust, now time.Time) ([]*rsa.PublicKey, []byte, error) {
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
		return nil, nil,
			fmt.Errorf("certificate of %s: key of type %T is not supported: must be RSA", leaf.Subject, leaf.PublicKey)
	}
	for _, known := range trust.Keys {
		if known.Equal(key) {
			return []*rsa.PublicKey{key}, value, nil
		}
	}
	if err := checkChain(certificates, trust, s.Name, now); err != nil {
		return nil, nil, err
	}
	return []*rsa.PublicKey{key}, value, nil
}

func decodePEM(s Signature) (value []byte, certificates []*x509.Certificate, err error) {
	text := strings.TrimSpace(s.Value)
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != pemSignature || !strings.HasPrefix(text, "-----BEGIN "+pemSignature) {
		return nil, nil, errors.New("value does not begin with a PEM block of type SIGNATURE")
	}
	if named := block.Headers[pemAlgorithmName]; named != s.Algorithm {
		return nil, nil, fmt.Errorf("value: the PEM header has %q, but the algorithm is %q", named, s.Algorithm)
	}
	value = block.Bytes
	for block, rest = pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(certificates) == maxChain {
			return nil, nil,
				fmt.Errorf("value: must have at most %d CERTIFICATE blocks after the signature, found %q", maxChain,
					block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("value: certificate: %w", err)
		}
		// The key in an untrusted certificate could be so large that verification takes too long.
		if err := checkCertificate(certificate); err != nil {
			return nil, nil, fmt.Errorf("value: %w", err)
		}
		certificates = append(certificates, certificate)
	}
	if strings.TrimSpace(string(rest)) != "" {
		return nil, nil, errors.New("value contains data after the last PEM block")
	}
	return value, certificates, nil
}

// checkChain returns an error unless a trusted authority issued the first certificate. It uses the other certificates
// in the signature only as intermediates, and never trusts them as authorities.
func checkChain(certificates []*x509.Certificate, trust Trust, name string, now time.Time) error {
	if len(trust.Roots) == 0 {
		return errors.New("contains a certificate, but no certificate authority is trusted")
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, root := range trust.Roots {
		roots.AddCert(root)
	}
	leaf := certificates[0]
	for i, c := range certificates {
		if i > 0 && slices.ContainsFunc(trust.Roots, c.Equal) {
			continue // the official OCM tool includes the authority's certificate in signatures
		}
		if isSelfSigned(c) {
			return fmt.Errorf(
				"certificate of %s is self-signed: trust its key or its authority; a signature's own certificates "+
					"are never trusted", c.Subject)
		}
		if i > 0 {
			intermediates.AddCert(c)
		}
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	})
	if err != nil {
		return fmt.Errorf("certificate of %s: %w", leaf.Subject, err)
	}
	// A certificate without the key usage extension is valid for all usages (RFC 5280, 4.2.1.3).
	if leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return fmt.Errorf("certificate of %s does not allow digital signatures", leaf.Subject)
	}
	wanted := trust.Subject
	if wanted == "" {
		wanted = name
	}
	if leaf.Subject.CommonName != wanted {
		return fmt.Errorf("certificate has subject %q, must be %q", leaf.Subject.CommonName, wanted)
	}
	return nil
}

// isSelfSigned reports whether the certificate is self-signed. Unlike x509.Certificate.CheckSignatureFrom, it accepts
// certificates that are not authorities.
func isSelfSigned(c *x509.Certificate) bool {
	return bytes.Equal(c.RawIssuer, c.RawSubject) &&
		c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}
