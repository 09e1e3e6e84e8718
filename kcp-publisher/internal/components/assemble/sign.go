package assemble

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

// ReadKey reads an RSA private key in PEM, as `openssl genrsa` and `ocm create rsakeypair` write it.
func ReadKey(data []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM block found: want an RSA private key")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("block %q is not an RSA private key without a password", block.Type)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("holds a key of type %T: OCM components are signed with RSA", parsed)
	}
	return key, nil
}

// Sign adds a signature of this name over the component: the digests of its content and images, and all other fields
// except their locations. It is equivalent to `ocm sign componentversions`.
//
// Source: ocm-spec, doc/04-extensions/04-algorithms/signing-algorithms.md.
func (c *Component) Sign(name string, key *rsa.PrivateKey) error {
	if unpinned := c.Unpinned(); len(unpinned) > 0 {
		return fmt.Errorf(
			"a signature has to cover the images, and the digests of some are not known: write %s as "+
				"NAME:TAG@sha256:DIGEST",
			strings.Join(unpinned, ", "),
		)
	}
	const hash = "SHA-256"
	value, err := ocm.DigestOf(c.Descriptor, ocm.NormalisationV3, hash)
	if err != nil {
		return err
	}
	hashed, err := hex.DecodeString(value)
	if err != nil {
		return err
	}
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, hashed)
	if err != nil {
		return fmt.Errorf("sign component %s:%s: %w", c.Descriptor.Name, c.Descriptor.Version, err)
	}
	c.Descriptor.Signatures = append(c.Descriptor.Signatures, ocm.Signature{
		Name: name, Digest: ocm.Digest{HashAlgorithm: hash, NormalisationAlgorithm: ocm.NormalisationV3, Value: value},
		Algorithm: "RSASSA-PKCS1-V1_5", MediaType: "application/vnd.ocm.signature.rsa",
		Value: hex.EncodeToString(signature),
	})
	return nil
}
