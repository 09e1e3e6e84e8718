package bundle

import (
	"github.com/opencontainers/go-digest"
)

// Adopt reads a bundle as its publisher does who finds it in the registry: authentic, for this runtime and whole, but
// without judging its time or sequence, because an expired bundle is still the last one. The error is a *Refusal.
func Adopt(fetched Fetched, root Root, runtime string) (Verified, error) {
	manifest, refusal := readBundleManifest(fetched)
	if refusal != nil {
		return Verified{}, refusal
	}
	statement, hint, refusal := authenticStatement(manifest, root)
	if refusal == nil {
		refusal = checkAudience(statement.Predicate.Audience, Trust{Runtime: runtime})
	}
	if refusal == nil {
		refusal = checkSubjects(statement.Subject, manifest)
	}
	if refusal != nil {
		return Verified{}, refusal
	}
	return Verified{
		Statement: statement, Digest: digest.FromBytes(fetched.Bytes), KeyThumbprint: hint,
		Config: manifest.Config, Catalog: manifest.Layers[0],
	}, nil
}
