package pull

import (
	"context"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// restoreRoots reads the newest root of trust from the saved state. It returns the root that verified the last accepted
// bundle, which can be older.
func (p *Puller) restoreRoots(state map[string][]byte) (trust.Root, error) {
	pinned := p.Trust.Root
	if len(state[stateRoot]) > 0 {
		followed, err := trust.ParseRoot(state[stateRoot])
		if err != nil {
			return pinned, fmt.Errorf("%s: %w", stateRoot, err)
		}
		p.Trust.Root = trust.NewestRoot(followed, pinned)
	}
	if len(state[stateBundleRoot]) == 0 {
		return pinned, nil
	}
	under, err := trust.ParseRoot(state[stateBundleRoot])
	if err != nil {
		return pinned, fmt.Errorf("%s: %w", stateBundleRoot, err)
	}
	p.acceptedRoot = under.Raw
	return under, nil
}

// followRoot reads newer root of trust versions from the registry. It verifies each version with its predecessor and
// stores the newest valid version. It records an invalid version as refused.
func (p *Puller) followRoot(ctx context.Context) error {
	before := p.Trust.Root
	newest, refused, at, err := store.FollowRoot(ctx, p.location.current, p.Trust.Root)
	if err != nil {
		return err
	}
	p.Trust.Root = newest
	if refused != nil {
		p.recordRefusal(at, refused)
	} else {
		p.dropRefusals(true)
	}
	if p.Trust.Root.Version == before.Version {
		return nil
	}
	if err := p.Save(ctx); err != nil {
		p.Trust.Root = before // the new root is not stored, so a restart would lose it
		return fmt.Errorf("root of trust version %d %w: %w", newest.Version, ErrNotStored, err)
	}
	return nil
}
