package pull

import (
	"context"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// restoreRoots restores the root of trust after a restart, and returns the root under which the bundle in force was
// accepted.
func (p *Puller) restoreRoots(state map[string][]byte) (trust.Root, error) {
	pinned := p.Trust.Root
	if len(state[stateRoot]) > 0 {
		followed, err := trust.ParseRoot(state[stateRoot])
		if err != nil {
			return pinned, fmt.Errorf("%s: %w", stateRoot, err)
		}
		p.Trust.Root = trust.Newest(followed, pinned)
	}
	if len(state[stateBundleRoot]) == 0 {
		return pinned, nil
	}
	under, err := trust.ParseRoot(state[stateBundleRoot])
	if err != nil {
		return pinned, fmt.Errorf("%s: %w", stateBundleRoot, err)
	}
	p.acceptedUnder = under.Raw
	return under, nil
}

// followRoot reads newer versions of the root of trust, one after the other, and stores the verified ones. It reports
// and ignores an invalid one, because the owner of a registry can hide a root anyway. The error is that of reading the
// registry.
func (p *Puller) followRoot(ctx context.Context) error {
	before := p.Trust.Root
	newest, refused, at, err := store.FollowRoot(ctx, p.location.used, p.Trust.Root)
	if err != nil {
		return err
	}
	p.Trust.Root = newest
	if refused != nil {
		p.noteRefusal(at, refused)
	} else {
		p.forgetRefusals(true)
	}
	if p.Trust.Root.Version == before.Version {
		return nil
	}
	if err := p.Save(ctx); err != nil {
		p.Trust.Root = before // do not use a root that is lost after a restart
		return fmt.Errorf("root of trust version %d %w: %w", newest.Version, ErrNotKept, err)
	}
	return nil
}
