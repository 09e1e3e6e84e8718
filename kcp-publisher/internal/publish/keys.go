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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Keys are what a Publisher signs with, and the root of trust that lists them.
type Keys struct {
	Root trust.Root
	// Former are older versions of the root; bundles of their publishers are still known as this fleet's own.
	Former []trust.Root
	Signer trust.Signer
	// Enroll signs agents' certificates, nil when there are none.
	Enroll trust.Signer

	thumbprint, enrollThumbprint string
}

// identify reads which keys these are.
func (k *Keys) identify() error {
	var err error
	if k.thumbprint, err = thumbprintOf(k.Signer); err != nil {
		return fmt.Errorf("read the publisher key: %w", err)
	}
	if k.Enroll == nil {
		return nil
	}
	if k.enrollThumbprint, err = thumbprintOf(k.Enroll); err != nil {
		return fmt.Errorf("read the enrollment key: %w", err)
	}
	return nil
}

// Fit decides whether agents accept what these keys sign now, as far as the keys themselves tell. The error is a
// *refusal.Error.
func (k Keys) Fit(now time.Time) error {
	if err := k.identify(); err != nil {
		return err
	}
	return k.fit(now)
}

// fit is Fit for keys that are identified.
func (k *Keys) fit(now time.Time) error {
	if !k.Root.Trusts(k.thumbprint) {
		return refusal.New(refusal.UnknownKey, "publisher key %s is not listed in the root of trust, version %d: no runtime would accept its bundles; "+
			"take the key folder as the last `kcp-publisher keys` command left it", k.thumbprint, k.Root.Version)
	}
	if k.Enroll != nil && !k.Root.TrustsEnroll(k.enrollThumbprint) {
		return refusal.New(refusal.UnknownKey, "enrollment key %s is not listed in the root of trust, version %d: no certificate of it would be accepted", k.enrollThumbprint, k.Root.Version)
	}
	if !now.Before(k.Root.Expires) {
		return refusal.New(refusal.RootExpired, "the root of trust, version %d, expired at %s: no runtime would accept a bundle; renew it with `kcp-publisher keys rotate`",
			k.Root.Version, k.Root.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// CheckNewest decides whether the root of these keys is the newest that agents find in a store: they follow a newer
// one, which may not list these keys. The error is a *refusal.Error, or says that the store could not be read. What
// lies there and does not follow this root is somebody else's, and no agent follows it either.
func (k *Keys) CheckNewest(ctx context.Context, place store.Store) error {
	newest, _, _, err := store.FollowRoot(ctx, place, k.Root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a folder that is no layout yet has no roots
		return err
	}
	if err == nil && newest.Version > k.Root.Version {
		return refusal.New(refusal.BadRoot, "the key folder is outdated: its root of trust is version %d, and %s:%s is newer: take the key folder that made it, or a newer backup",
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

// TakeUp replaces the keys of a Publisher at work, and reports whether they are others than before: every runtime needs
// a new bundle then. Their roots are published first, also when the publisher's own key is not listed any more: a
// revocation has to arrive. Only a publisher that has published none yet uses the keys at once, and they may be
// replaced although there is an error: it was a standby, and what was changed since its start may have revoked its
// keys. The publisher publishes nothing with keys that no agent would accept; CheckKeys says so.
func (p *Publisher) TakeUp(ctx context.Context, keys Keys) (replaced bool, err error) {
	if err := keys.identify(); err != nil {
		return false, err
	}
	p.turning.Lock()
	defer p.turning.Unlock()
	begins := p.rooted.Load() == nil
	if begins {
		inUse := keys // publishRoots asks nobody whether keys that are being replaced are outdated
		replaced = p.use(&inUse)
	}
	if err := p.publishRoots(ctx, &keys); err != nil || begins {
		return replaced, err
	}
	return p.use(&keys), nil
}

// use replaces the keys, and reports whether they are others than before.
func (p *Publisher) use(keys *Keys) bool {
	before := p.keys.Load()
	replaced := !bytes.Equal(before.Root.Raw, keys.Root.Raw) || before.thumbprint != keys.thumbprint || before.enrollThumbprint != keys.enrollThumbprint
	if replaced || len(before.Former) != len(keys.Former) {
		p.keys.Store(keys) // else what is remembered by the keys in use stays right
	}
	return replaced
}

// checkNewest is CheckNewest for the keys in use. Those that are being replaced are not outdated: the newer root is
// this publisher's own.
func (p *Publisher) checkNewest(ctx context.Context, keys *Keys) error {
	if p.keys.Load() != keys {
		return nil
	}
	p.turning.RLock()
	defer p.turning.RUnlock()
	if p.keys.Load() != keys {
		return nil
	}
	return keys.CheckNewest(ctx, p.Place)
}

// CheckKeys decides anew whether agents would accept what this publisher signs, and whether that is otherwise than
// before. While the error is a *refusal.Error, Publish refuses; any other says that the registry could not be asked,
// and changes nothing.
func (p *Publisher) CheckKeys(ctx context.Context) (changed bool, err error) {
	keys := p.keys.Load()
	if err = keys.fit(p.Now()); err == nil {
		err = keys.CheckNewest(ctx, p.Place)
	}
	refused := refusal.Of(err)
	if err != nil && refused == nil {
		return false, err
	}
	before := p.unfit.Swap(refused)
	return (before == nil) != (refused == nil), err
}

// fit returns why nothing may be published with the keys, nil if it may.
func (p *Publisher) fit(keys *Keys) error {
	if refused := p.unfit.Load(); refused != nil {
		return refused
	}
	return keys.fit(p.Now())
}

// publishRoots makes the roots lie there that are not known to. An agent must know a key before it sees what the key
// signed.
func (p *Publisher) publishRoots(ctx context.Context, keys *Keys) error {
	known := p.rooted.Load()
	if known != nil && keys.Root.Version <= known.version && p.recently(known.at) {
		return nil
	}
	pushed, err := keys.publishRoots(ctx, p.Place)
	if err != nil {
		return err
	}
	if known != nil && len(pushed) > 0 && pushed[0] <= known.version && p.Restored != nil {
		p.Restored(ctx, fmt.Sprintf("root of trust versions %v", pushed))
	}
	if known == nil || known.version < keys.Root.Version {
		if err := p.checkNewest(ctx, keys); err != nil {
			return err
		}
	}
	p.rooted.CompareAndSwap(known, &rooted{keys.Root.Version, p.Now()}) // unless it was forgotten meanwhile
	return nil
}

// PublishRoots puts every version of the root of trust where agents find it: before any bundle that its keys sign.
func (k *Keys) PublishRoots(ctx context.Context, place store.Store) error {
	_, err := k.publishRoots(ctx, place)
	return err
}

// publishRoots returns the versions that were not there.
func (k *Keys) publishRoots(ctx context.Context, place store.Store) (pushed []int64, err error) {
	for _, root := range append(slices.Clone(k.Former), k.Root) {
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

// Root returns the root of trust in use.
func (p *Publisher) Root() trust.Root { return p.keys.Load().Root }

// certificate returns the certificate that the runtime's next bundle brings: the one of the last bundle as long as it
// is for the runtime's key and good, another when the runtime asked for one and it is time. checked is the one that was
// last found valid.
func (k *Keys) certificate(last *plan.Published, r plan.Runtime, validity time.Duration, checked *checkedCertificate, now time.Time) (string, error) {
	if r.Key == nil || k.Enroll == nil {
		return "", nil
	}
	var known string
	var renew time.Time
	if last != nil && last.Predicate.Certificate != "" {
		before, err := checked.check(k, last.Predicate.Certificate, r.ID, now)
		if err == nil && before.Thumbprint == r.Audience.KeyThumbprint {
			known, renew = last.Predicate.Certificate, before.RenewAt().Truncate(time.Second)
		}
	}
	if !r.Requests || known != "" && now.Before(renew) {
		return known, nil
	}
	from := now.UTC().Truncate(time.Second)
	return trust.IssueCertificate(k.Enroll, k.Root.Fleet, r.ID, r.Key, from, from.Add(validity))
}
