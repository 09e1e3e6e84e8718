package bundle

import (
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// Bundle is an accepted bundle with its documents.
type Bundle struct {
	Verified
	State   DesiredState
	Modules Catalog
}

// Open checks the two blobs' digests and decodes them. The error is a *refusal.Error.
func (v Verified) Open(config, catalog []byte) (Bundle, error) {
	for i, blob := range [][]byte{config, catalog} {
		want := []ocispec.Descriptor{v.Config, v.Catalog}[i]
		if int64(len(blob)) != want.Size || digest.FromBytes(blob) != want.Digest {
			return Bundle{},
				refusal.New(refusal.WrongDigest,
					"%s has %d bytes and digest %s, but the signed blob has %d bytes and digest %s",
					blobName(i), len(blob), digest.FromBytes(blob), want.Size, want.Digest)
		}
	}
	state, err := DecodeDesiredState(config)
	if err != nil {
		return Bundle{}, refusal.New(refusal.Malformed, "config: %w", err)
	}
	modules, err := DecodeCatalog(catalog)
	if err != nil {
		return Bundle{}, refusal.New(refusal.Malformed, "layers[0]: %w", err)
	}
	return Bundle{Verified: v, State: state, Modules: modules}, nil
}
