package bundle

import (
	"crypto"
	"maps"

	"github.com/opencontainers/go-digest"
)

// publisherKeys are keys that may have signed a bundle.
type publisherKeys struct {
	known map[string]crypto.PublicKey
	// version is the root's that they are of.
	version int64
}

func (r Root) publisherKeys() publisherKeys { return publisherKeys{r.publishers, r.Version} }

// Adopt reads a bundle as its publisher does who finds it in the registry: authentic, for this runtime and whole, but
// without judging its time or sequence, because an expired bundle is still the last one. Former are versions of the root before this
// one: their publishers' bundles were good, and those of revoked keys are not. The error is a *Refusal.
func Adopt(fetched Fetched, runtime string, root Root, former ...Root) (Verified, error) {
	manifest, refusal := readBundleManifest(fetched)
	if refusal != nil {
		return Verified{}, refusal
	}
	keys := publisherKeys{maps.Clone(root.publishers), root.Version}
	for _, r := range former {
		for thumbprint, key := range r.publishers {
			if !root.IsRevoked(thumbprint) {
				keys.known[thumbprint] = key
			}
		}
	}
	statement, by, refusal := authenticStatement(manifest, keys)
	if refusal == nil {
		refusal = checkAudience(statement.Predicate.Audience, Trust{Runtime: runtime})
	}
	if refusal == nil {
		refusal = checkSubjects(statement.Subject, manifest)
	}
	if refusal != nil {
		return Verified{}, refusal
	}
	d, p := digest.FromBytes(fetched.Bytes), statement.Predicate
	return Verified{
		Statement: statement, Digest: d, KeyThumbprint: by.thumbprint, Config: manifest.Config, Catalog: manifest.Layers[0],
		Accepted: Accepted{Epoch: p.Epoch, Sequence: p.Sequence, Digest: d, Statement: by.statement, NewestTime: p.IssuedAt},
	}, nil
}
