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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

// ReadKey parses an RSA private key in PEM, in the format of `openssl genrsa` and `ocm create rsakeypair`.
func ReadKey(data []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM block found: must be an RSA private key in PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("PEM block %q is not an unencrypted RSA private key", block.Type)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key has type %T, must be an RSA private key", parsed)
	}
	return key, nil
}

// Sign adds a signature with the given name, as `ocm sign componentversions` does. The signature covers all fields
// except locations. Sign returns an error if agents would use an image in the objects without its digest.
//
// Source: ocm-spec, doc/04-extensions/04-algorithms/signing-algorithms.md.
func (c *Component) Sign(name string, key *rsa.PrivateKey, objects []*unstructured.Unstructured) error {
	if unpinned := c.UnpinnedImages(); len(unpinned) > 0 {
		return fmt.Errorf(
			"a signature must cover all images, but the digests of some are unknown: write %s as "+
				"NAME:TAG@sha256:DIGEST",
			strings.Join(unpinned, ", "),
		)
	}
	ignored, err := c.ignoredImages(objects)
	if err != nil {
		return err
	}
	if len(ignored) > 0 {
		return fmt.Errorf(
			"agents ignore the digest of %s in a signed component, because the tag is not a version such as 1.2.3: use "+
				"a version as the image's tag, or write the image as NAME:TAG@sha256:DIGEST in the content",
			strings.Join(ignored, ", "),
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
