package bundle

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Adopt reads a bundle as its publisher does who finds it in the registry: authentic, for this runtime and whole, but
// without judging its time or sequence, because an expired bundle is still the last one. Former are versions of the
// root before this one: their publishers' bundles were good, and those of revoked keys are not. The error is a
// *Refusal.
func Adopt(fetched Fetched, runtime string, root trust.Root, former ...trust.Root) (Verified, error) {
	manifest, refusal := readBundleManifest(fetched)
	if refusal != nil {
		return Verified{}, refusal
	}
	statement, by, refusal := authenticStatement(manifest, root, former...)
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
