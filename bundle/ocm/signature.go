package ocm

import (
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
	maxTrustBytes     = 1 << 20
	maxTrusted        = 100
	maxChain          = 8
	maxSignatureBytes = 64 << 10
	minKeyBits        = 2048
)

// Trust are the keys that may have made a signature.
type Trust struct {
	// Keys are public keys that are trusted as they are.
	Keys []*rsa.PublicKey
	// Roots are authorities; a signature that carries a certificate of theirs is trusted for its subject.
	Roots []*x509.Certificate
	// Subject is the common name that such a certificate must have; empty means the signature's name.
	Subject string
}

// ParseTrust reads public keys and certificates: PEM with any number of PUBLIC KEY, RSA PUBLIC KEY and CERTIFICATE blocks, or one
// key in PKIX DER, as Kyma's Secrets had it.
func ParseTrust(data []byte) (Trust, error) {
	var trust Trust
	if len(data) > maxTrustBytes {
		return trust, fmt.Errorf("keys: larger than %d bytes", maxTrustBytes)
	}
	block, rest := pem.Decode(data)
	if block == nil {
		key, err := x509.ParsePKIXPublicKey(data)
		if err != nil {
			return trust, errors.New("holds neither PEM nor a public key in DER: want a block PUBLIC KEY or CERTIFICATE")
		}
		return trust, trust.addKey(key)
	}
	for count := 1; block != nil; block, rest = pem.Decode(rest) {
		if count++; count > maxTrusted {
			return trust, fmt.Errorf("keys: more than %d", maxTrusted)
		}
		if err := trust.addBlock(block); err != nil {
			return Trust{}, err
		}
	}
	if strings.TrimSpace(string(rest)) != "" {
		return Trust{}, errors.New("holds something that is not PEM after the last block")
	}
	return trust, nil
}

func (t *Trust) addBlock(block *pem.Block) error {
	switch block.Type {
	case "PUBLIC KEY":
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", block.Type, err)
		}
		return t.addKey(key)
	case "RSA PUBLIC KEY":
		key, err := x509.ParsePKCS1PublicKey(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", block.Type, err)
		}
		return t.addKey(key)
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", block.Type, err)
		}
		t.Roots = append(t.Roots, certificate)
		return nil
	}
	if strings.Contains(block.Type, "PRIVATE KEY") {
		return errors.New("holds a private key: give the public key, and make a new pair, for this one is known now")
	}
	return fmt.Errorf("block %q is neither PUBLIC KEY nor CERTIFICATE", block.Type)
}

func (t *Trust) addKey(key any) error {
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return fmt.Errorf("key of type %T is not supported: want RSA", key)
	}
	if err := checkKey(public); err != nil {
		return err
	}
	t.Keys = append(t.Keys, public)
	return nil
}

func checkKey(key *rsa.PublicKey) error {
	if bits := key.N.BitLen(); bits < minKeyBits {
		return fmt.Errorf("RSA key of %d bits is too weak: want %d at least", bits, minKeyBits)
	}
	return nil
}

// CheckSignature tells whether a signature is genuine and about this descriptor. What the descriptor refers to is covered only by
// digests: the caller compares contents (CheckContent, CheckArtifact) and the descriptors of references (DigestOf).
func (d Descriptor) CheckSignature(s Signature, trust Trust, now time.Time) error {
	actual, err := DigestOf(d, s.Digest.NormalisationAlgorithm, s.Digest.HashAlgorithm)
	if err != nil {
		return fmt.Errorf("signature %q: %w", s.Name, err)
	}
	if !strings.EqualFold(actual, s.Digest.Value) {
		return fmt.Errorf("signature %q: is about another descriptor: digest is %s, signed was %s", s.Name, actual, s.Digest.Value)
	}
	return s.Verify(trust, now)
}

// Verify tells whether one of the trusted keys made the signature over its own digest. The error says why not.
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

func cryptoHash(algorithm string) (crypto.Hash, error) {
	switch algorithm {
	case "SHA-256", "sha256":
		return crypto.SHA256, nil
	case "SHA-512", "sha512":
		return crypto.SHA512, nil
	}
	return 0, fmt.Errorf("hash algorithm %q is not supported", algorithm)
}

func made(algorithm string, key *rsa.PublicKey, hash crypto.Hash, digest, value []byte) bool {
	if algorithm == AlgorithmPSS {
		// The official tool takes the longest salt there is room for, not the length of the hash.
		return rsa.VerifyPSS(key, hash, digest, value, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto}) == nil
	}
	return rsa.VerifyPKCS1v15(key, hash, digest, value) == nil
}

// chain takes signature and certificates out of the PEM form, and gives the key that may count: the leaf's if a trusted authority
// vouches for it, or if it is a trusted key itself.
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
	block, rest := pem.Decode([]byte(s.Value))
	if block == nil || block.Type != pemSignature {
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
		certificates = append(certificates, certificate)
	}
	if strings.TrimSpace(string(rest)) != "" {
		return nil, nil, errors.New("value: holds something that is not PEM after the last block")
	}
	return value, certificates, nil
}

// vouched tells whether a pinned authority vouches for the leaf. Nothing that came with the signature is an authority.
func vouched(certificates []*x509.Certificate, trust Trust, name string, now time.Time) error {
	if len(trust.Roots) == 0 {
		return errors.New("carries a certificate, and there is no authority that could vouch for it")
	}
	leaf := certificates[0]
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, root := range trust.Roots {
		roots.AddCert(root)
	}
	for _, c := range certificates[1:] {
		if slices.ContainsFunc(trust.Roots, c.Equal) {
			continue // the official tool repeats the authority
		}
		if c.CheckSignatureFrom(c) == nil {
			return fmt.Errorf("certificate of %s signs itself: authorities are not taken from a signature", c.Subject)
		}
		intermediates.AddCert(c)
	}
	if leaf.CheckSignatureFrom(leaf) == nil {
		return fmt.Errorf("certificate of %s signs itself: authorities are not taken from a signature", leaf.Subject)
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
