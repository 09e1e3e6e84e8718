package bundle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Carried lists the container images that a file carries to runtimes. A bundle names most images by tag; on the way by hand nobody
// but the publisher can say which image that is, so the list is signed like a bundle.
type Carried struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Images     []CarriedImage `json:"images"`
}

// CarriedImage is an image, or an index of images, by the reference that the modules know it by.
type CarriedImage struct {
	Reference string `json:"reference"`
	// Name is where it is in the file and below the prefix: "images/HOST/PATH:TAG".
	Name      string        `json:"name"`
	MediaType string        `json:"mediaType"`
	Digest    digest.Digest `json:"digest"`
	SizeBytes int64         `json:"size"`
}

// Descriptor is that of the image's manifest or index.
func (i CarriedImage) Descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: i.MediaType, Digest: i.Digest, Size: i.SizeBytes}
}

const kindCarried = "Carried"

type carriedStatement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     struct{}  `json:"predicate"`
}

// NewCarried encodes a list. Equal lists give equal bytes.
func NewCarried(images []CarriedImage) (Blob, error) {
	images = slices.Clone(images)
	slices.SortFunc(images, func(a, b CarriedImage) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.Marshal(Carried{APIVersion: APIVersion, Kind: kindCarried, Images: images})
	if err == nil && len(data) > MaxDocumentBytes {
		err = fmt.Errorf("list of %d images: %d bytes, at most %d", len(images), len(data), MaxDocumentBytes)
	}
	return NewBlob(MediaTypeCarried, data), err
}

// CarriedTag names the signed list in the CarriedRepository.
func CarriedTag(list digest.Digest) string { return "list-" + list.Encoded()[:32] }

// ComposeCarried signs the list and gives its manifest.
func ComposeCarried(list Blob, signer trust.Signer) (Blob, error) {
	attestation, err := attest(carriedStatement{
		Type: StatementType, Subject: []Subject{subjectOf(blobName(0), list.Descriptor.Digest)}, PredicateType: PredicateCarried,
	}, signer)
	if err != nil {
		return Blob{}, err
	}
	return NewManifest(ocispec.Manifest{
		ArtifactType: ArtifactTypeCarried, Config: list.Descriptor, Layers: []ocispec.Descriptor{ocispec.DescriptorEmptyJSON},
		Annotations: map[string]string{AnnotationAttestation: string(attestation)},
	})
}

// VerifyCarried decides whether a publisher of the root signed the list that the manifest is about, and gives the list's descriptor.
// The error is a *Refusal.
func VerifyCarried(fetched Fetched, root trust.Root) (ocispec.Descriptor, error) {
	list, refusal := verifyCarried(fetched, root)
	if refusal != nil {
		return ocispec.Descriptor{}, refusal
	}
	return list, nil
}

func verifyCarried(fetched Fetched, root trust.Root) (ocispec.Descriptor, *refusal.Error) {
	manifest, refused := ReadManifest(fetched, ArtifactTypeCarried)
	if refused != nil {
		return ocispec.Descriptor{}, refused
	}
	signed, refused := readAttestation([]byte(manifest.Annotations[AnnotationAttestation]))
	if refused != nil {
		return ocispec.Descriptor{}, refused
	}
	hint := signed.VerificationMaterial.PublicKey.Hint
	key := root.PublisherKey(hint)
	if key == nil {
		return ocispec.Descriptor{}, refusal.New(refusal.UnknownKey, "the list of images is signed by a key %s that root version %d does not list as a publisher", trust.ShortThumbprint(hint), root.Version)
	}
	payload, refused := signed.authenticate(key)
	if refused != nil {
		return ocispec.Descriptor{}, refused
	}
	var statement carriedStatement
	if refusal := decodeStatement(payload, PredicateCarried, &statement); refusal != nil {
		return ocispec.Descriptor{}, refusal
	}
	if len(statement.Subject) != 1 || statement.Subject[0].digest() != manifest.Config.Digest {
		return ocispec.Descriptor{}, refusal.New(refusal.WrongDigest, "the list of images is %s, which is not what was signed", manifest.Config.Digest)
	}
	return manifest.Config, nil
}

// DecodeCarried reads a list strictly. Errors name the field.
func DecodeCarried(data []byte) (Carried, error) {
	var list Carried
	if err := decodeStrict(data, &list); err != nil {
		return list, fmt.Errorf("list of images: %w", err)
	}
	if err := checkHeader(list.APIVersion, list.Kind, kindCarried); err != nil {
		return list, err
	}
	for i, image := range list.Images {
		if err := image.Digest.Validate(); err != nil || image.Digest.Algorithm() != digest.SHA256 {
			return list, fmt.Errorf("list of images: images[%d].digest: %q: want a digest of sha256", i, image.Digest)
		}
		if !strings.HasPrefix(image.Name, ImageRepository("")) || strings.Count(image.Name, ":") != 1 {
			return list, fmt.Errorf("list of images: images[%d].name: %q: want images/HOST/PATH:TAG", i, image.Name)
		}
	}
	return list, nil
}
