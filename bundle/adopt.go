package bundle

import (
	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Adopt verifies a bundle that the publisher found in the registry: the bundle must be authentic, complete and intended
// for this runtime. Adopt accepts an expired bundle. It also accepts a bundle that is signed with a publisher key from
// a former root, unless the current root revokes that key. The error is a *refusal.Error.
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
		Statement: statement, Digest: d, KeyThumbprint: by.thumbprint, Config: manifest.Config,
		Catalog: manifest.Layers[0],
		Accepted: Accepted{
			Epoch: p.Epoch, Sequence: p.Sequence, Digest: d, Statement: by.statement, NewestTime: p.IssuedAt,
		},
	}, nil
}
