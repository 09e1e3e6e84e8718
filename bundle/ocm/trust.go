package ocm

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

const (
	maxTrustBytes = 1 << 20
	maxTrusted    = 100
	minKeyBits    = 2_048
	// Keys above these limits make signature verification too expensive.
	maxKeyBits  = 8_192
	maxExponent = 1<<16 + 1
)

// Trust contains the keys and certificate authorities whose signatures are accepted.
type Trust struct {
	// Keys are trusted public keys.
	Keys []*rsa.PublicKey
	// Roots are trusted certificate authorities.
	Roots []*x509.Certificate
	// Subject is the common name that a signer's certificate must have. If Subject is empty, the common name must equal
	// the signature's name.
	Subject string
}

// ParseTrust parses public keys and certificates in PEM, or one public key in PKIX DER. It treats every certificate as
// an authority. Public keys must be RSA keys of 2,048 to 8,192 bits.
func ParseTrust(data []byte) (Trust, error) {
	if len(data) > maxTrustBytes {
		return Trust{}, fmt.Errorf("keys are larger than %d bytes", maxTrustBytes)
	}
	var trust Trust
	block, rest := pem.Decode(data)
	if block == nil {
		if err := trust.addDER(data); err != nil {
			return Trust{}, err
		}
		return trust, nil
	}
	for count := 1; block != nil; count++ {
		if count > maxTrusted {
			return Trust{}, fmt.Errorf("more than %d keys", maxTrusted)
		}
		if err := trust.addBlock(block); err != nil {
			return Trust{}, err
		}
		block, rest = pem.Decode(rest)
	}
	if strings.TrimSpace(string(rest)) != "" {
		return Trust{}, errors.New("contains data after the last PEM block")
	}
	return trust, nil
}

var errPrivate = errors.New(
	"contains a private key: use the public key, and generate a new pair, because this one is no longer secret")

func (t *Trust) addDER(data []byte) error {
	key, err := x509.ParsePKIXPublicKey(data)
	if err == nil {
		return t.addKey(key)
	}
	if _, err := x509.ParsePKCS8PrivateKey(data); err == nil {
		return errPrivate
	}
	if _, err := x509.ParsePKCS1PrivateKey(data); err == nil {
		return errPrivate
	}
	return errors.New("must contain a PEM block of type PUBLIC KEY or CERTIFICATE, or a public key in DER")
}

func (t *Trust) addBlock(block *pem.Block) error {
	if strings.Contains(block.Type, "PRIVATE KEY") {
		return errPrivate
	}
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
		if err := checkCertificate(certificate); err != nil {
			return err
		}
		t.Roots = append(t.Roots, certificate)
		return nil
	}
	return fmt.Errorf("block %q is neither PUBLIC KEY nor CERTIFICATE", block.Type)
}

func (t *Trust) addKey(key any) error {
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return fmt.Errorf("key of type %T is not supported: must be RSA", key)
	}
	if err := checkKey(public); err != nil {
		return err
	}
	t.Keys = append(t.Keys, public)
	return nil
}

func checkKey(key *rsa.PublicKey) error {
	switch bits := key.N.BitLen(); {
	case bits < minKeyBits:
		return fmt.Errorf("RSA key of %d bits is too weak: must have at least %d", bits, minKeyBits)
	case bits > maxKeyBits:
		return fmt.Errorf("RSA key of %d bits is too long: must have at most %d", bits, maxKeyBits)
	case key.E > maxExponent:
		return fmt.Errorf("RSA key has exponent %d, must be at most %d", key.E, maxExponent)
	}
	return nil
}

// checkCertificate checks the size of an RSA key in a certificate. It accepts keys of all other types, because
// authorities can have them.
func checkCertificate(c *x509.Certificate) error {
	if key, ok := c.PublicKey.(*rsa.PublicKey); ok {
		if err := checkKey(key); err != nil {
			return fmt.Errorf("certificate of %s: %w", c.Subject, err)
		}
	}
	return nil
}
