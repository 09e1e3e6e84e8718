package bundle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Carried lists the container images in an air-gap file.
type Carried struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Images     []CarriedImage `json:"images"`
	// Bundles are the bundles that need the images.
	Bundles []CarriedBundle `json:"bundles,omitempty"`
}

// CarriedBundle identifies a runtime's bundle in an air-gap file.
type CarriedBundle struct {
	Runtime string        `json:"runtime"`
	Digest  digest.Digest `json:"digest"`
}

// CarriedPredicate is an image list's signed metadata. Image lists are ordered by Epoch, then by Sequence.
type CarriedPredicate struct {
	Epoch     int64     `json:"epoch,omitempty"`
	Sequence  int64     `json:"sequence,omitempty"`
	IssuedAt  time.Time `json:"issuedAt,omitzero"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// IsBefore reports whether p belongs to an older image list than other.
func (p CarriedPredicate) IsBefore(other CarriedPredicate) bool {
	return p.Epoch < other.Epoch || p.Epoch == other.Epoch && p.Sequence < other.Sequence
}

// CarriedImage is a container image or a multi-platform image index. Reference is the image reference in the modules'
// objects.
type CarriedImage struct {
	Reference string `json:"reference"`
	// Name is the image's name in the air-gap file, and in the target registry below the registry prefix:
	// "images/HOST/PATH:TAG".
	Name      string        `json:"name"`
	MediaType string        `json:"mediaType"`
	Digest    digest.Digest `json:"digest"`
	SizeBytes int64         `json:"size"`
}

// Descriptor returns the descriptor for the image's manifest or index.
func (i CarriedImage) Descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: i.MediaType, Digest: i.Digest, Size: i.SizeBytes}
}

const kindCarried = "Carried"

type carriedStatement struct {
	Type          string           `json:"_type"`
	Subject       []Subject        `json:"subject"`
	PredicateType string           `json:"predicateType"`
	Predicate     CarriedPredicate `json:"predicate"`
}

// NewCarried encodes a list of images and the bundles that need them. The order of images and bundles in the arguments
// does not change the result.
func NewCarried(images []CarriedImage, bundles []CarriedBundle) (Blob, error) {
	images, bundles = slices.Clone(images), slices.Clone(bundles)
	slices.SortFunc(images, func(a, b CarriedImage) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(bundles, func(a, b CarriedBundle) int { return strings.Compare(a.Runtime, b.Runtime) })
	data, err := json.Marshal(Carried{APIVersion: APIVersion, Kind: kindCarried, Images: images, Bundles: bundles})
	if err == nil && len(data) > MaxDocumentBytes {
		err = fmt.Errorf("list of %d images is %d bytes, must be at most %d", len(images), len(data), MaxDocumentBytes)
	}
	return NewBlob(MediaTypeCarried, data), err
}

// CarriedTag returns the tag in CarriedRepository for the signed image list with the given digest.
func CarriedTag(list digest.Digest) string { return "list-" + list.Encoded()[:32] }

// CarriedLastTag returns the tag for the runtime's last image list. An export sets it in the publisher's registry, and
// an import sets it in the target registry.
func CarriedLastTag(runtime string) string { return carriedLast + runtime }

const carriedLast = "last-"

// IsCarriedLastTag reports whether a tag has the format that CarriedLastTag returns.
func IsCarriedLastTag(tag string) bool { return strings.HasPrefix(tag, carriedLast) }

// ComposeCarried signs an encoded image list and returns the OCI manifest with the signature.
func ComposeCarried(list Blob, predicate CarriedPredicate, signer trust.Signer) (Blob, error) {
	attestation, err := attest(carriedStatement{
		Type: StatementType, Subject: []Subject{newSubject(blobName(0), list.Descriptor.Digest)},
		PredicateType: PredicateCarried, Predicate: predicate,
	}, signer)
	if err != nil {
		return Blob{}, err
	}
	return NewManifest(ocispec.Manifest{
		ArtifactType: ArtifactTypeCarried, Config: list.Descriptor,
		Layers:      []ocispec.Descriptor{ocispec.DescriptorEmptyJSON},
		Annotations: map[string]string{AnnotationAttestation: string(attestation)},
	})
}

// VerifiedCarried is a list of images with a valid publisher signature.
type VerifiedCarried struct {
	List      ocispec.Descriptor
	Predicate CarriedPredicate
}

// VerifyCarried checks that the image list in the manifest is signed with a publisher key from the root of trust. The
// error is a *refusal.Error.
func VerifyCarried(fetched Fetched, root trust.Root) (VerifiedCarried, error) {
	list, refusal := verifyCarried(fetched, root)
	if refusal != nil {
		return VerifiedCarried{}, refusal
	}
	return list, nil
}

func verifyCarried(fetched Fetched, root trust.Root) (VerifiedCarried, *refusal.Error) {
	var none VerifiedCarried
	manifest, refused := ReadManifest(fetched, ArtifactTypeCarried)
	if refused != nil {
		return none, refused
	}
	signed, refused := readAttestation([]byte(manifest.Annotations[AnnotationAttestation]))
	if refused != nil {
		return none, refused
	}
	hint := signed.VerificationMaterial.PublicKey.Hint
	key := root.PublisherKey(hint)
	if key == nil {
		return none,
			refusal.New(refusal.UnknownKey,
				"the list of images is signed by key %s, which is not a publisher key of root version %d",
				trust.ShortThumbprint(hint), root.Version)
	}
	payload, refused := signed.authenticate(key)
	if refused != nil {
		return none, refused
	}
	var statement carriedStatement
	if refusal := decodeStatement(payload, PredicateCarried, &statement); refusal != nil {
		return none, refusal
	}
	if len(statement.Subject) != 1 || statement.Subject[0].digest() != manifest.Config.Digest {
		return none,
			refusal.New(refusal.WrongDigest, "the list of images has digest %s, which is not the signed digest",
				manifest.Config.Digest)
	}
	return VerifiedCarried{manifest.Config, statement.Predicate}, nil
}

// CheckCarried checks that an air-gap file's signed image list is valid now and covers the file's bundles. The list
// must not be older than last, the last imported list. Before the first import, last is nil.
func CheckCarried(
	p CarriedPredicate, list Carried, with []CarriedBundle, last *CarriedPredicate, epoch int64, now time.Time,
	skew time.Duration,
) error {
	if p.Sequence < 1 || p.ExpiresAt.IsZero() || len(list.Bundles) == 0 {
		return refusal.New(refusal.Malformed,
			"the list of images has no bundles or no validity period: upgrade the kcp-publisher that created it, and "+
				"export again")
	}
	for _, b := range with {
		if !slices.Contains(list.Bundles, b) {
			return refusal.New(refusal.WrongDigest,
				"the list of images does not include bundle %s of runtime %s: the list is for another air-gap file", b.Digest,
				b.Runtime)
		}
	}
	if skew == 0 {
		skew = trust.MaxClockSkew
	}
	switch {
	case p.Epoch != epoch:
		return refusal.New(refusal.WrongEpoch,
			"the list of images has epoch %d, the root of trust has %d: export again", p.Epoch, epoch)
	case p.IssuedAt.After(now.Add(skew)):
		return refusal.New(refusal.NotYetIssued, "the list of images was issued at %s, but this clock shows %s",
			p.IssuedAt.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case !now.Before(p.ExpiresAt):
		return refusal.New(refusal.Expired, "the list of images expired at %s: export again",
			p.ExpiresAt.Format(time.RFC3339))
	case last != nil && p.IsBefore(*last):
		return refusal.New(refusal.Rollback,
			"the list of images has sequence %d, which is older than the imported sequence %d", p.Sequence,
			last.Sequence)
	}
	return nil
}

// DecodeCarried decodes an image list whose signature was verified. Errors name the field.
func DecodeCarried(data []byte) (Carried, error) {
	var list Carried
	if err := decodeVerified(data, &list); err != nil {
		return list, fmt.Errorf("list of images: %w", err)
	}
	if err := checkHeader(list.APIVersion, list.Kind, kindCarried); err != nil {
		return list, err
	}
	for i, image := range list.Images {
		if err := image.Digest.Validate(); err != nil || image.Digest.Algorithm() != digest.SHA256 {
			return list, fmt.Errorf("list of images: images[%d].digest: %q: must be a sha256 digest", i, image.Digest)
		}
		if !strings.HasPrefix(image.Name, ImageRepository("")) || strings.Count(image.Name, ":") != 1 {
			return list, fmt.Errorf("list of images: images[%d].name: %q: must be images/HOST/PATH:TAG", i, image.Name)
		}
	}
	for i, b := range list.Bundles {
		if err := trust.CheckRuntimeID(b.Runtime); err != nil {
			return list, fmt.Errorf("list of images: bundles[%d].runtime: %w", i, err)
		}
	}
	return list, nil
}
