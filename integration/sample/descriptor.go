package sample

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"strings"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
)

// Signer signs components with a plain RSA key. The signatures have the Signer's name.
type Signer struct {
	Name string
	Key  *rsa.PrivateKey
}

// NewSigner returns a Signer with this name and a new key.
func NewSigner(name string) (Signer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	return Signer{name, key}, err
}

// PublicPEM returns the public key as a PEM block.
func (s Signer) PublicPEM() []byte {
	der, err := x509.MarshalPKIXPublicKey(&s.Key.PublicKey)
	if err != nil {
		panic(err) // encoding an RSA key never fails
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// InContext converts a component descriptor to JSON and adds a repository context for host and path.
func InContext(descriptor []byte, host, path string) ([]byte, error) {
	var document map[string]any
	if err := yaml.Unmarshal(descriptor, &document); err != nil {
		return nil, err
	}
	document["component"].(map[string]any)["repositoryContexts"] = []any{
		repository("origin.example", "built"), repository(host, path),
	}
	return json.Marshal(document)
}

// repository returns a repository context for a descriptor.
func repository(host, path string) any {
	return map[string]any{"type": "OCIRegistry", "baseUrl": host, "subPath": path, "componentNameMapping": "urlPath"}
}

const normalisation = "jsonNormalisation/v3"

// Descriptor returns the component's descriptor as YAML.
func (v Version) Descriptor() ([]byte, error) {
	resources := []any{}
	for _, r := range v.resources() {
		resources = append(resources, v.resource(r))
	}
	references := []any{}
	for _, r := range v.References {
		reference := map[string]any{"name": r.Module, "version": r.Version, "componentName": r.Component()}
		if len(v.Signed) > 0 {
			value, err := r.digest()
			if err != nil {
				return nil, err
			}
			reference["digest"] = digestSpec(normalisation, value)
		}
		references = append(references, reference)
	}
	document := map[string]any{
		"meta": map[string]any{"schemaVersion": "v2"},
		"component": map[string]any{
			"name": v.Component(), "version": v.Version, "provider": "kyma-pull.dev",
			"repositoryContexts": []any{}, "sources": []any{}, "componentReferences": references,
			"resources": resources,
		},
	}
	if host, path, found := strings.Cut(v.Context, "/"); found {
		document["component"].(map[string]any)["repositoryContexts"] = []any{repository(host, path)}
	}
	signatures, err := v.sign(document)
	if err != nil {
		return nil, err
	}
	if len(signatures) > 0 {
		document["signatures"] = signatures
	}
	return yaml.Marshal(document)
}

func (v Version) resource(r Resource) map[string]any {
	resource := map[string]any{"name": r.Name, "version": v.Version, "type": r.Type}
	if r.Image != "" {
		resource["relation"], resource["access"] = "external", map[string]any{
			"type": "ociArtifact", "imageReference": r.Image,
		}
		if r.ImageDigest != "" {
			resource["digest"] = digestSpec("ociArtifactDigest/v1", r.ImageDigest.Encoded())
		}
		return resource
	}
	content := digest.FromBytes(r.Content)
	resource["relation"] = "local"
	resource["access"] = map[string]any{
		"type": "localBlob", "localReference": content.String(), "mediaType": r.MediaType,
	}
	if len(v.Signed) > 0 {
		resource["digest"] = digestSpec("genericBlobDigest/v1", content.Encoded())
	}
	return resource
}

func digestSpec(normalisation, value string) map[string]any {
	return map[string]any{"hashAlgorithm": "SHA-256", "normalisationAlgorithm": normalisation, "value": value}
}

// digest returns the digest of the component's normalized descriptor.
func (v Version) digest() (string, error) {
	data, err := v.Descriptor()
	if err != nil {
		return "", err
	}
	descriptor, err := ocm.Decode(data)
	if err != nil {
		return "", err
	}
	return ocm.DigestOf(descriptor, normalisation, "SHA-256")
}

func (v Version) sign(document map[string]any) ([]any, error) {
	var signatures []any
	for _, signer := range v.Signed {
		data, err := yaml.Marshal(document)
		if err != nil {
			return nil, err
		}
		descriptor, err := ocm.Decode(data)
		if err != nil {
			return nil, err
		}
		value, err := ocm.DigestOf(descriptor, normalisation, "SHA-256")
		if err != nil {
			return nil, err
		}
		hash, err := hex.DecodeString(value)
		if err != nil {
			return nil, err
		}
		signature, err := rsa.SignPKCS1v15(rand.Reader, signer.Key, crypto.SHA256, hash)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, map[string]any{
			"name": signer.Name, "digest": digestSpec(normalisation, value),
			"signature": map[string]any{
				"algorithm": "RSASSA-PKCS1-V1_5", "mediaType": "application/vnd.ocm.signature.rsa",
				"value": hex.EncodeToString(signature),
			},
		})
	}
	return signatures, nil
}
