package pull

import (
	"context"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/intake"
)

// rootCheck is the result of verifying the last accepted bundle with the newest root of trust.
type rootCheck struct {
	bundle, root string // the verified bundle's digest, and the root of trust's content
	reason       string
}

// FrozenReason returns the reason why the last accepted bundle must not change module versions: the bundle expired, or
// the newest root of trust would refuse it. It returns "" if the bundle can change versions.
//
// An upgrade can wait for a maintenance window. Without this check, the upgrade would start even if an operator has
// revoked the bundle's key or a release key since the agent accepted the bundle.
func (p *Puller) FrozenReason(ctx context.Context) string {
	if p.current == nil {
		return ""
	}
	if p.IsExpired() {
		return "the last accepted bundle expired"
	}
	if p.lastRootCheck.bundle != p.current.Digest.String() || p.lastRootCheck.root != string(p.Trust.Root.Raw) {
		untrusted, err := p.distrustReason(ctx, p.Trust.Root)
		if err != nil {
			return fmt.Sprintf("the last accepted bundle cannot be verified again: %v", err)
		}
		p.lastRootCheck = rootCheck{p.current.Digest.String(), string(p.Trust.Root.Raw), untrusted}
	}
	return p.lastRootCheck.reason
}

// distrustReason returns the reason why a root of trust does not accept the last accepted bundle. It returns "" if the
// root accepts the bundle.
func (p *Puller) distrustReason(ctx context.Context, root trust.Root) (string, error) {
	b := p.current
	switch {
	case !root.TrustsKey(b.KeyThumbprint):
		return fmt.Sprintf("root of trust version %d does not list key %s, which signed the last accepted bundle",
			root.Version, trust.ShortThumbprint(b.KeyThumbprint)), nil
	case b.Statement.Predicate.Epoch != root.Epoch:
		return fmt.Sprintf("the last accepted bundle has epoch %d, but root of trust version %d has epoch %d",
			b.Statement.Predicate.Epoch, root.Version, root.Epoch), nil
	}
	state := b.State
	// Omit the mirrors from the check. They include this cluster's mirrors, which are allowed even if the root has
	// release keys.
	state.Settings.Mirrors = nil
	refused, err := intake.CheckReleases(ctx, p.readProof, root, state, p.CurrentTime())
	if refused != nil {
		return fmt.Sprintf("root of trust version %d refuses the last accepted bundle: %v", root.Version, refused), err
	}
	return "", err
}
