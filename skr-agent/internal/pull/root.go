package pull

import (
	"context"
	"fmt"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// restoreRoots takes up the root that was followed before a restart, and gives the one that the bundle in force was
// accepted under.
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

// followRoot looks for newer versions of the root of trust, one after the other, and keeps what it followed. One that
// does not follow is told and otherwise as good as none: the owner of a registry can hide a root anyway. The error says
// that the registry could not be read.
func (p *Puller) followRoot(ctx context.Context) error {
	before := p.Trust.Root
	newest, refused, at, err := store.FollowRoot(ctx, p.Place, p.Trust.Root)
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
		p.Trust.Root = before // a root that a restart would forget is not followed
		return fmt.Errorf("root of trust version %d %w: %w", newest.Version, ErrNotKept, err)
	}
	return nil
}
