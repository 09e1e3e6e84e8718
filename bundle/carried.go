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

// Carried lists the container images that a file carries to runtimes. A bundle names most images by tag; on the way by
// hand nobody but the publisher can say which image that is, so the list is signed like a bundle.
type Carried struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Images     []CarriedImage `json:"images"`
	// Bundles are those that the images are for. A list is good for them alone.
	Bundles []CarriedBundle `json:"bundles,omitempty"`
}

// CarriedBundle is the bundle of a runtime that a file brings.
type CarriedBundle struct {
	Runtime string        `json:"runtime"`
	Digest  digest.Digest `json:"digest"`
}

// CarriedPredicate says when a list of images was made. Lists of a fleet are ordered by epoch and sequence, as bundles
// are.
type CarriedPredicate struct {
	Epoch     int64     `json:"epoch,omitempty"`
	Sequence  int64     `json:"sequence,omitempty"`
	IssuedAt  time.Time `json:"issuedAt,omitzero"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// Before reports whether a list was made before another one.
func (p CarriedPredicate) Before(other CarriedPredicate) bool {
	return p.Epoch < other.Epoch || p.Epoch == other.Epoch && p.Sequence < other.Sequence
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
	Type          string           `json:"_type"`
	Subject       []Subject        `json:"subject"`
	PredicateType string           `json:"predicateType"`
	Predicate     CarriedPredicate `json:"predicate"`
}

// NewCarried encodes a list of images for bundles. Equal lists give equal bytes.
func NewCarried(images []CarriedImage, bundles []CarriedBundle) (Blob, error) {
	images, bundles = slices.Clone(images), slices.Clone(bundles)
	slices.SortFunc(images, func(a, b CarriedImage) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(bundles, func(a, b CarriedBundle) int { return strings.Compare(a.Runtime, b.Runtime) })
	data, err := json.Marshal(Carried{APIVersion: APIVersion, Kind: kindCarried, Images: images, Bundles: bundles})
	if err == nil && len(data) > MaxDocumentBytes {
		err = fmt.Errorf("list of %d images: %d bytes, at most %d", len(images), len(data), MaxDocumentBytes)
	}
	return NewBlob(MediaTypeCarried, data), err
}

// CarriedTag names the signed list in the CarriedRepository.
func CarriedTag(list digest.Digest) string { return "list-" + list.Encoded()[:32] }

// CarriedLastTag names the list that was imported last for a runtime, in the CarriedRepository of where it was imported
// to.
func CarriedLastTag(runtime string) string { return carriedLast + runtime }

const carriedLast = "last-"

// IsCarriedLastTag reports whether a tag is one of CarriedLastTag.
func IsCarriedLastTag(tag string) bool { return strings.HasPrefix(tag, carriedLast) }

// ComposeCarried signs the list and gives its manifest.
func ComposeCarried(list Blob, predicate CarriedPredicate, signer trust.Signer) (Blob, error) {
	attestation, err := attest(carriedStatement{
		Type: StatementType, Subject: []Subject{subjectOf(blobName(0), list.Descriptor.Digest)}, PredicateType: PredicateCarried, Predicate: predicate,
	}, signer)
	if err != nil {
		return Blob{}, err
	}
	return NewManifest(ocispec.Manifest{
		ArtifactType: ArtifactTypeCarried, Config: list.Descriptor, Layers: []ocispec.Descriptor{ocispec.DescriptorEmptyJSON},
		Annotations: map[string]string{AnnotationAttestation: string(attestation)},
	})
}

// VerifiedCarried is a list of images that a publisher signed.
type VerifiedCarried struct {
	List      ocispec.Descriptor
	Predicate CarriedPredicate
}

// VerifyCarried decides whether a publisher of the root signed the list that the manifest is about. The error is a
// *Refusal.
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
		return none, refusal.New(refusal.UnknownKey, "the list of images is signed by a key %s that root version %d does not list as a publisher", trust.ShortThumbprint(hint), root.Version)
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
		return none, refusal.New(refusal.WrongDigest, "the list of images is %s, which is not what was signed", manifest.Config.Digest)
	}
	return VerifiedCarried{manifest.Config, statement.Predicate}, nil
}

// CheckCarried decides whether a list is good now for the bundles that come with it, and not older than the one that
// was imported last for the same runtimes, nil for none.
func CheckCarried(p CarriedPredicate, list Carried, with []CarriedBundle, last *CarriedPredicate, epoch int64, now time.Time, skew time.Duration) error {
	if p.Sequence < 1 || p.ExpiresAt.IsZero() || len(list.Bundles) == 0 {
		return refusal.New(refusal.Malformed, "the list of images does not say for which bundles it is, or when it was made: an earlier kcp-publisher made it; export again")
	}
	for _, b := range with {
		if !slices.Contains(list.Bundles, b) {
			return refusal.New(refusal.WrongDigest, "the list of images is not for bundle %s of runtime %s: it belongs to another file", b.Digest, b.Runtime)
		}
	}
	if skew == 0 {
		skew = trust.MaxClockSkew
	}
	switch {
	case p.Epoch != epoch:
		return refusal.New(refusal.WrongEpoch, "the list of images is of epoch %d, the root of trust of %d: export again", p.Epoch, epoch)
	case p.IssuedAt.After(now.Add(skew)):
		return refusal.New(refusal.NotYetIssued, "the list of images was made at %s, here it is %s", p.IssuedAt.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case !now.Before(p.ExpiresAt):
		return refusal.New(refusal.Expired, "the list of images expired at %s: export again", p.ExpiresAt.Format(time.RFC3339))
	case last != nil && p.Before(*last):
		return refusal.New(refusal.Rollback, "the list of images has sequence %d, one with %d was imported before", p.Sequence, last.Sequence)
	}
	return nil
}

// DecodeCarried reads a list that is authenticated: see decodeVerified. Errors name the field.
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
			return list, fmt.Errorf("list of images: images[%d].digest: %q: want a digest of sha256", i, image.Digest)
		}
		if !strings.HasPrefix(image.Name, ImageRepository("")) || strings.Count(image.Name, ":") != 1 {
			return list, fmt.Errorf("list of images: images[%d].name: %q: want images/HOST/PATH:TAG", i, image.Name)
		}
	}
	for i, b := range list.Bundles {
		if err := trust.CheckRuntimeID(b.Runtime); err != nil {
			return list, fmt.Errorf("list of images: bundles[%d].runtime: %w", i, err)
		}
	}
	return list, nil
}
