package trust

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// MaxRootHops bounds how many versions of the root are followed at once: a yearly one takes a lifetime, and an
// attacker's endless chain ends.
const MaxRootHops = 64

// Next decides whether data is the version of the root that follows this one: signed by enough keys of both, one
// version on, of the same fleet, of no older epoch, and without taking back a revocation. That it is expired does not
// matter on the way to a newer one. The error is a *Refusal.
//
// Source: TUF specification 1.0.33, section 5.3.
func (r Root) Next(data []byte) (Root, error) {
	next, err := ParseRoot(data)
	if err != nil {
		return Root{}, refusal.New(refusal.BadRoot, "%w", err)
	}
	if err := r.parsed.VerifyDelegate(RoleRoot, next.parsed); err != nil {
		return Root{},
			refusal.New(refusal.BadRoot, "root version %d is not signed by the keys of version %d: %w", next.Version,
				r.Version, err)
	}
	lost := slices.IndexFunc(r.Revoked, func(thumbprint string) bool { return !next.IsRevoked(thumbprint) })
	switch {
	case next.Version != r.Version+1:
		return Root{}, refusal.New(refusal.BadRoot, "version %d does not follow version %d", next.Version, r.Version)
	case next.Epoch < r.Epoch:
		return Root{},
			refusal.New(refusal.BadRoot, "version %d is of epoch %d, version %d was of %d", next.Version, next.Epoch,
				r.Version, r.Epoch)
	case r.Fleet != "" && next.Fleet != r.Fleet:
		return Root{},
			refusal.New(refusal.BadRoot, "version %d is of fleet %q, version %d was of %q", next.Version, next.Fleet,
				r.Version, r.Fleet)
	case lost >= 0:
		return Root{},
			refusal.New(refusal.BadRoot, "version %d takes back that key %s is revoked", next.Version,
				ShortThumbprint(r.Revoked[lost]))
	}
	return next, nil
}

// Newest returns the newer of the followed root and the pinned one. The followed root wins, unless the operator of the
// cluster pinned a later version, or a higher epoch after a loss of the keys.
func Newest(followed, pinned Root) Root {
	if pinned.Epoch > followed.Epoch || pinned.Epoch == followed.Epoch && pinned.Version > followed.Version {
		return pinned
	}
	return followed
}
