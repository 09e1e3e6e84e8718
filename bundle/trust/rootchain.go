package trust

import (
	"bytes"
	"slices"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// MaxRootHops limits how many newer root of trust versions a reader verifies in one run.
const MaxRootHops = 64

// Next parses data and verifies that it is the root of trust version after r. The root keys in both versions must have
// signed it. Its version number must be one higher, its fleet must be the same, and its epoch must not be lower. It
// must contain all of r's revocations. Next does not check the expiry. The error is a *refusal.Error.
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
			refusal.New(refusal.BadRoot, "version %d has epoch %d, but version %d has epoch %d", next.Version,
				next.Epoch, r.Version, r.Epoch)
	case r.Fleet != "" && next.Fleet != r.Fleet:
		return Root{},
			refusal.New(refusal.BadRoot, "version %d has fleet %q, but version %d has fleet %q", next.Version,
				next.Fleet, r.Version, r.Fleet)
	case lost >= 0:
		return Root{},
			refusal.New(refusal.BadRoot, "version %d withdraws the revocation of key %s", next.Version,
				ShortThumbprint(r.Revoked[lost]))
	}
	return next, nil
}

// IsSuccessor reports whether next is r itself, or can be a later version of r: the root keys in r signed it, and it
// has the same fleet and no lower epoch. Unlike Next, IsSuccessor allows skipped versions. It returns false if root
// keys were replaced in a skipped version.
func (r Root) IsSuccessor(next Root) bool {
	if next.Version <= r.Version {
		return bytes.Equal(r.Raw, next.Raw)
	}
	return next.Epoch >= r.Epoch && next.Fleet == r.Fleet &&
		r.parsed.VerifyDelegate(RoleRoot, next.parsed) == nil
}

// NewestRoot returns the newer of two roots of trust: the latest version from the registry (followed) or the version in
// the agent's installation (pinned). It compares epochs first, and then versions.
func NewestRoot(followed, pinned Root) Root {
	if pinned.Epoch > followed.Epoch || pinned.Epoch == followed.Epoch && pinned.Version > followed.Version {
		return pinned
	}
	return followed
}
