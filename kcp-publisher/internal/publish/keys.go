package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Keys contains a Publisher's signing keys and the root of trust that lists them.
type Keys struct {
	Root trust.Root
	// FormerRoots contains the earlier versions of the root of trust. The publisher also accepts existing bundles
	// that were signed with keys from these versions.
	FormerRoots []trust.Root
	Signer      trust.Signer
	// EnrollSigner signs the agents' certificates. If it is nil, the publisher does not issue certificates.
	EnrollSigner trust.Signer

	thumbprint, enrollThumbprint string
}

func (k *Keys) setThumbprints() error {
	var err error
	if k.thumbprint, err = thumbprintOf(k.Signer); err != nil {
		return fmt.Errorf("read the publisher key: %w", err)
	}
	if k.EnrollSigner == nil {
		return nil
	}
	if k.enrollThumbprint, err = thumbprintOf(k.EnrollSigner); err != nil {
		return fmt.Errorf("read the enrollment key: %w", err)
	}
	return nil
}

// CheckFit checks whether agents would accept signatures with these keys now. It does not read the registry. It returns
// a *refusal.Error if agents would refuse the signatures.
func (k Keys) CheckFit(now time.Time) error {
	if err := k.setThumbprints(); err != nil {
		return err
	}
	return k.checkFit(now)
}

func (k *Keys) checkFit(now time.Time) error {
	if !k.Root.TrustsKey(k.thumbprint) {
		return refusal.New(refusal.UnknownKey,
			"publisher key %s is not listed in the root of trust, version %d: runtimes would refuse its bundles; "+
				"use the key folder of the last `kcp-publisher keys` command", k.thumbprint, k.Root.Version)
	}
	if k.EnrollSigner != nil && !k.Root.TrustsEnroll(k.enrollThumbprint) {
		return refusal.New(refusal.UnknownKey,
			"enrollment key %s is not listed in the root of trust, version %d: its certificates would be refused",
			k.enrollThumbprint, k.Root.Version)
	}
	if !now.Before(k.Root.Expires) {
		return refusal.New(refusal.RootExpired,
			"the root of trust, version %d, expired at %s: runtimes would refuse all bundles; renew it with "+
				"`kcp-publisher keys rotate`",
			k.Root.Version, k.Root.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// CheckNewest returns a *refusal.Error if the store contains a valid version of the root of trust that is newer than
// k.Root. Agents use the newest version, which might not list these keys.
func (k *Keys) CheckNewest(ctx context.Context, place store.Store) error {
	newest, _, _, err := store.FollowRoot(ctx, place, k.Root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && newest.Version > k.Root.Version {
		return refusal.New(refusal.BadRoot,
			"the key folder is outdated: its root of trust is version %d, but %s:%s is newer: use the key folder "+
				"with the newer version, or a newer backup",
			k.Root.Version, place.Name(bundle.TrustRepository), bundle.RootTag(newest.Version))
	}
	return nil
}

func thumbprintOf(signer trust.Signer) (string, error) {
	public, err := signer.PublicKey()
	if err != nil {
		return "", err
	}
	return trust.Thumbprint(public)
}

// ReplaceKeys replaces a running Publisher's keys and publishes the new versions of the root of trust. It returns
// true if the keys or the root of trust differ from the previous ones. In this case, every runtime needs a new
// bundle. ReplaceKeys does not check whether agents would accept signatures with the new keys. Call CheckKeys
// afterwards.
func (p *Publisher) ReplaceKeys(ctx context.Context, keys Keys) (replaced bool, err error) {
	if err := keys.setThumbprints(); err != nil {
		return false, err
	}
	p.keysLock.Lock()
	defer p.keysLock.Unlock()
	begins := p.publishedRoot.Load() == nil
	if begins {
		// Store a copy. checkNewest compares pointers and would treat &keys as the keys in use, although they are not
		// yet.
		inUse := keys
		replaced = p.setKeys(&inUse)
	}
	if err := p.publishRoots(ctx, &keys); err != nil || begins {
		return replaced, err
	}
	return p.setKeys(&keys), nil
}

func (p *Publisher) setKeys(keys *Keys) bool {
	before := p.keys.Load()
	replaced := !bytes.Equal(before.Root.Raw, keys.Root.Raw) || before.thumbprint != keys.thumbprint ||
		before.enrollThumbprint != keys.enrollThumbprint
	if replaced || len(before.FormerRoots) != len(keys.FormerRoots) {
		p.keys.Store(keys) // caches compare this pointer, so every change to the keys needs a new one
	}
	return replaced
}

// checkNewest calls CheckNewest if the Publisher uses these keys. For other keys, which are about to replace the
// current ones or were replaced, it returns nil. In these cases, the Publisher itself publishes a newer root of trust.
func (p *Publisher) checkNewest(ctx context.Context, keys *Keys) error {
	if p.keys.Load() != keys {
		return nil
	}
	p.keysLock.RLock()
	defer p.keysLock.RUnlock()
	if p.keys.Load() != keys {
		return nil
	}
	return keys.CheckNewest(ctx, p.Place)
}

// CheckKeys checks whether agents would accept this Publisher's signatures. changed is true if the result differs from
// the previous check. If CheckKeys returns a *refusal.Error, Publish fails until a later call to CheckKeys succeeds.
func (p *Publisher) CheckKeys(ctx context.Context) (changed bool, err error) {
	keys := p.keys.Load()
	if err = keys.checkFit(p.Now()); err == nil {
		err = keys.CheckNewest(ctx, p.Place)
	}
	refused := refusal.Of(err)
	if err != nil && refused == nil {
		return false, err
	}
	before := p.unfitReason.Swap(refused)
	return (before == nil) != (refused == nil), err
}

func (p *Publisher) checkFit(keys *Keys) error {
	if refused := p.unfitReason.Load(); refused != nil {
		return refused
	}
	return keys.checkFit(p.Now())
}

// publishRoots publishes the versions of the root of trust that the registry does not contain. Before an agent can
// verify a signature, it needs a version that lists the key.
func (p *Publisher) publishRoots(ctx context.Context, keys *Keys) error {
	known := p.publishedRoot.Load()
	if known != nil && keys.Root.Version <= known.version && p.isRecent(known.at) {
		return nil
	}
	pushed, err := keys.publishRoots(ctx, p.Place)
	if err != nil {
		return err
	}
	if known != nil && len(pushed) > 0 && pushed[0] <= known.version && p.OnRestored != nil {
		p.OnRestored(ctx, fmt.Sprintf("root of trust versions %v", pushed))
	}
	if known == nil || known.version < keys.Root.Version {
		if err := p.checkNewest(ctx, keys); err != nil {
			return err
		}
	}
	// Keep the value of another goroutine that changed publishedRoot at the same time.
	p.publishedRoot.CompareAndSwap(known, &publishedRoot{keys.Root.Version, p.Now()})
	return nil
}

// PublishRoots publishes every version of the root of trust in k. Callers must call it before they sign a bundle with
// these keys.
func (k *Keys) PublishRoots(ctx context.Context, place store.Store) error {
	_, err := k.publishRoots(ctx, place)
	return err
}

func (k *Keys) publishRoots(ctx context.Context, place store.Store) (pushed []int64, err error) {
	for _, root := range append(slices.Clone(k.FormerRoots), k.Root) {
		there, err := store.HasRoot(ctx, place, root)
		if err == nil && !there {
			pushed = append(pushed, root.Version)
			err = store.PushRoot(ctx, place, root)
		}
		if err != nil {
			return pushed, fmt.Errorf("publish root of trust version %d: %w", root.Version, err)
		}
	}
	return pushed, nil
}

// Root returns the root of trust that the Publisher currently uses.
func (p *Publisher) Root() trust.Root { return p.keys.Load().Root }
