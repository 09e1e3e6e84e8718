package bundle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
)

// MaxRootHops bounds how many versions of the root are followed at once: a yearly one takes a lifetime, and an attacker's
// endless chain ends.
const MaxRootHops = 64

// Next decides whether data is the version of the root that follows this one: signed by enough keys of both, one version on,
// of the same fleet, of no older epoch, and without taking back a revocation. That it is expired does not matter on the way to a
// newer one. The error is a *Refusal.
//
// Source: TUF specification 1.0.33, section 5.3.
func (r Root) Next(data []byte) (Root, error) {
	next, err := ParseRoot(data)
	if err != nil {
		return Root{}, refuse(ReasonBadRoot, "%v", err)
	}
	if err := r.parsed.VerifyDelegate(RoleRoot, next.parsed); err != nil {
		return Root{}, refuse(ReasonBadRoot, "root version %d is not signed by those of version %d: %v", next.Version, r.Version, err)
	}
	lost := slices.IndexFunc(r.Revoked, func(thumbprint string) bool { return !next.IsRevoked(thumbprint) })
	switch {
	case next.Version != r.Version+1:
		return Root{}, refuse(ReasonBadRoot, "version %d does not follow version %d", next.Version, r.Version)
	case next.Epoch < r.Epoch:
		return Root{}, refuse(ReasonBadRoot, "version %d is of epoch %d, version %d was of %d", next.Version, next.Epoch, r.Version, r.Epoch)
	case r.Fleet != "" && next.Fleet != r.Fleet:
		return Root{}, refuse(ReasonBadRoot, "version %d is of fleet %q, version %d was of %q", next.Version, next.Fleet, r.Version, r.Fleet)
	case lost >= 0:
		return Root{}, refuse(ReasonBadRoot, "version %d takes back that key %s is revoked", next.Version, compactHint(r.Revoked[lost]))
	}
	return next, nil
}

// FollowRoot looks for newer versions of a root, one after the other, and gives the last that follows. One that does not follow ends
// the way: it is given as a refusal with the digest of its manifest. The error says that the place could not be read.
func FollowRoot(ctx context.Context, place *Place, root Root) (newest Root, refused *Refusal, at digest.Digest, err error) {
	for range MaxRootHops {
		data, found, err := FetchRoot(ctx, place, root.Version+1)
		if errors.Is(err, ErrNotFound) {
			return root, nil, "", nil
		}
		var next Root
		if err == nil {
			next, err = root.Next(data)
		}
		if refusal := RefusalOf(err); refusal != nil {
			return root, &Refusal{Reason: ReasonBadRoot, Detail: refusal.Detail}, found, nil
		}
		if err != nil {
			return root, nil, "", fmt.Errorf("look for root of trust version %d: %w", root.Version+1, err)
		}
		root = next
	}
	return root, nil, "", nil
}

// Newest decides between the root that was followed last and the one that is pinned: the followed one, unless whoever runs the
// cluster pinned a later version or, having lost the keys, started anew with a higher epoch.
func Newest(followed, pinned Root) Root {
	if pinned.Epoch > followed.Epoch || pinned.Epoch == followed.Epoch && pinned.Version > followed.Version {
		return pinned
	}
	return followed
}

// RootTag names a version of the root in the TrustRepository.
func RootTag(version int64) string { return TagRoot + strconv.FormatInt(version, 10) }

// PushRoot puts a version of the root where agents look for it. A version never changes: another one in its place is an error.
func PushRoot(ctx context.Context, place *Place, root Root) error {
	layer := NewBlob(MediaTypeRoot, root.Raw)
	manifest, err := newManifest(ocispec.Manifest{
		ArtifactType: ArtifactTypeRoot, Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer.Descriptor},
	})
	if err != nil {
		return err
	}
	repository, err := place.Repository(ctx, TrustRepository)
	if err != nil {
		return err
	}
	tag := RootTag(root.Version)
	switch there, err := Head(ctx, repository, tag); {
	case err == nil && there == manifest.Descriptor.Digest:
		return nil
	case err == nil:
		return fmt.Errorf("%s:%s is another root of trust (%s) than the one of the keys (%s): somebody replaced it, or the keys are those of another fleet", place.Name(TrustRepository), tag, there, manifest.Descriptor.Digest)
	case !errors.Is(err, ErrNotFound):
		return err
	}
	for _, blob := range []Blob{EmptyBlob(), layer} {
		if err := PushBlob(ctx, repository, blob); err != nil {
			return err
		}
	}
	return PushManifest(ctx, repository, manifest, tag)
}

// FetchRoot gives a version of the root as it lies there, unjudged, with the digest of its manifest. It wraps ErrNotFound when there
// is none; a *Refusal says that what lies there is no root.
func FetchRoot(ctx context.Context, place *Place, version int64) ([]byte, digest.Digest, error) {
	repository, err := place.Reading(ctx, TrustRepository)
	if err != nil {
		return nil, "", err
	}
	return ReadRoot(ctx, repository, version)
}

// ReadRoot is FetchRoot from a repository that is at hand.
func ReadRoot(ctx context.Context, repository oras.ReadOnlyTarget, version int64) ([]byte, digest.Digest, error) {
	newest, err := Head(ctx, repository, RootTag(version))
	if err != nil {
		return nil, "", err
	}
	fetched, err := Fetch(ctx, repository, newest.String())
	if err != nil {
		return nil, newest, err
	}
	manifest, refusal := readManifest(fetched, ArtifactTypeRoot)
	if refusal != nil {
		return nil, newest, refusal
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != MediaTypeRoot || manifest.Layers[0].Size > MaxRootBytes {
		return nil, newest, refuse(ReasonBadRoot, "layers: want one of %s with at most %d bytes", MediaTypeRoot, MaxRootBytes)
	}
	data, err := FetchBlob(ctx, repository, manifest.Layers[0], MaxRootBytes)
	return data, newest, err
}
