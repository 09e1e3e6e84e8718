package pull

import (
	"context"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/intake"
)

// judgment is the result of a comparison of the last accepted bundle with the newest root of trust.
type judgment struct {
	bundle, root string // the digest of the bundle, and the content of the root
	untrusted    string
}

// Frozen returns the reason why the last accepted bundle must not change the version of a module, "" for none: it
// expired, or the newest root of trust would refuse it. Without this check, a change that waited for a maintenance
// window would start although an operator has revoked the bundle's key or a release key since.
func (p *Puller) Frozen(ctx context.Context) string {
	if p.current == nil {
		return ""
	}
	if p.Expired() {
		return "the last accepted bundle expired"
	}
	if p.judged.bundle != p.current.Digest.String() || p.judged.root != string(p.Trust.Root.Raw) {
		untrusted, err := p.untrusted(ctx, p.Trust.Root)
		if err != nil {
			return fmt.Sprintf("the last accepted bundle cannot be verified again: %v", err)
		}
		p.judged = judgment{p.current.Digest.String(), string(p.Trust.Root.Raw), untrusted}
	}
	return p.judged.untrusted
}

// untrusted returns the reason why a root of trust does not accept the last accepted bundle, "" if it does.
func (p *Puller) untrusted(ctx context.Context, root trust.Root) (string, error) {
	b := p.current
	switch {
	case !root.Trusts(b.KeyThumbprint):
		return fmt.Sprintf("root of trust version %d does not list key %s, which signed the last accepted bundle",
			root.Version, trust.ShortThumbprint(b.KeyThumbprint)), nil
	case b.Statement.Predicate.Epoch != root.Epoch:
		return fmt.Sprintf("the last accepted bundle has epoch %d, but root of trust version %d has epoch %d",
			b.Statement.Predicate.Epoch, root.Version, root.Epoch), nil
	}
	state := b.State
	state.Settings.Mirrors = nil // they include the mirrors of this cluster, which are allowed with release keys
	refused, err := intake.CheckReleases(ctx, p.proof, root, state, p.Clock())
	if refused != nil {
		return fmt.Sprintf("root of trust version %d refuses the last accepted bundle: %v", root.Version, refused), err
	}
	return "", err
}
