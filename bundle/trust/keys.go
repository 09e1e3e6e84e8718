package trust

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/sigstore/sigstore/pkg/signature"
)

// Signer signs with one private key, which is in a file or in a key management service (KMS).
type Signer = signature.Signer

const pemPrivateKey, pemPublicKey = "PRIVATE KEY", "PUBLIC KEY"

// GenerateKey creates a P-256 key and returns it in PEM (PKCS #8).
func GenerateKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der}), nil
}

// LoadSigner parses a PKCS #8 PEM file with an ECDSA P-256 private key.
func LoadSigner(file []byte) (Signer, error) {
	block, rest := pem.Decode(file)
	if block == nil || block.Type != pemPrivateKey || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("key file: must be exactly one PEM block of type PRIVATE KEY (PKCS #8)")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("key file contains a %T, must be an ECDSA P-256 key", parsed)
	}
	return signature.LoadECDSASigner(key, crypto.SHA256)
}

// PublicKeyPEM returns the signer's public key in PEM.
func PublicKeyPEM(signer Signer) ([]byte, error) {
	key, err := signer.PublicKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPublicKey, Bytes: der}), nil
}

// LoadPublicKey reads a public key from a PEM file. It returns an error for unsupported algorithms.
func LoadPublicKey(file []byte) (crypto.PublicKey, error) {
	der, err := onePEM(string(file), pemPublicKey)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	return DecodePublicKey(base64.StdEncoding.EncodeToString(der))
}

// Thumbprint returns a public key's identifier: the SHA-256 of its PKIX form, encoded as base64. Attestations contain
// it as the public key hint.
func Thumbprint(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// EncodePublicKey returns a key in PKIX form, encoded as base64.
func EncodePublicKey(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	return base64.StdEncoding.EncodeToString(der), err
}

// DecodePublicKey parses a key that EncodePublicKey returned. It returns an error if the key's algorithm is not
// supported.
func DecodePublicKey(encoded string) (crypto.PublicKey, error) {
	der, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	if !isSupported(key) {
		return nil, fmt.Errorf("public key: key type %T is not accepted, must be ECDSA P-256 or Ed25519", key)
	}
	return key, nil
}

func isSupported(key crypto.PublicKey) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return len(k) == ed25519.PublicKeySize // ed25519.Verify panics for keys with another length
	}
	return false
}

// CheckSignature reports whether sig is a valid signature for the message with this key. The type of the key determines
// the algorithm.
func CheckSignature(key crypto.PublicKey, message, sig []byte) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(message)
		return k.Curve == elliptic.P256() && ecdsa.VerifyASN1(k, sum[:], sig)
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, sig)
	}
	return false
}

// ShortThumbprint shortens a thumbprint for messages.
func ShortThumbprint(thumbprint string) string {
	if raw, err := base64.StdEncoding.DecodeString(thumbprint); err != nil || len(raw) != 32 {
		return "with an invalid thumbprint"
	}
	return thumbprint[:12] + "…"
}
