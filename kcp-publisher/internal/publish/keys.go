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

// Keys are a Publisher's signing keys, and the root of trust that lists them.
type Keys struct {
	Root trust.Root
	// Former are older versions of the root. Bundles of their publishers still count as this fleet's own.
	Former []trust.Root
	Signer trust.Signer
	// Enroll signs agents' certificates, or is nil without an enrollment key.
	Enroll trust.Signer

	thumbprint, enrollThumbprint string
}

// identify reads the thumbprints of the keys.
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

// Fit decides from the keys alone whether agents accept their signatures now. The error is a *refusal.Error.
func (k Keys) Fit(now time.Time) error {
	if err := k.identify(); err != nil {
		return err
	}
	return k.fit(now)
}

// fit is Fit for keys with known thumbprints.
func (k *Keys) fit(now time.Time) error {
	if !k.Root.Trusts(k.thumbprint) {
		return refusal.New(refusal.UnknownKey,
			"publisher key %s is not listed in the root of trust, version %d: runtimes would refuse its bundles; "+
				"use the key folder of the last `kcp-publisher keys` command", k.thumbprint, k.Root.Version)
	}
	if k.Enroll != nil && !k.Root.TrustsEnroll(k.enrollThumbprint) {
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

// CheckNewest decides whether the root of these keys is the latest in a store. Agents follow a newer root, which may
// not list these keys. The error is a *refusal.Error, or the one from reading the store. Like agents, it ignores a root
// that does not follow this one.
func (k *Keys) CheckNewest(ctx context.Context, place store.Store) error {
	newest, _, _, err := store.FollowRoot(ctx, place, k.Root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a folder that is not a layout yet has no roots
		return err
	}
	if err == nil && newest.Version > k.Root.Version {
		return refusal.New(refusal.BadRoot,
			"the key folder is outdated: its root of trust is version %d, but %s:%s is newer: use the key folder "+
				"that created it, or a newer backup",
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

// TakeUp replaces the keys of a running Publisher, and reports whether they changed: every runtime then needs a new
// bundle. It publishes the new roots first, even if they no longer list the publisher's own key, because a revocation
// must be delivered. A publisher that has published no root yet uses the keys at once, and can replace them despite an
// error: it was a standby, and its old keys may have been revoked since its start. The publisher does not publish with
// keys that agents would refuse; see CheckKeys.
func (p *Publisher) TakeUp(ctx context.Context, keys Keys) (replaced bool, err error) {
	if err := keys.identify(); err != nil {
		return false, err
	}
	p.turning.Lock()
	defer p.turning.Unlock()
	begins := p.rooted.Load() == nil
	if begins {
		inUse := keys // publishRoots does not check whether keys that are being replaced are outdated
		replaced = p.use(&inUse)
	}
	if err := p.publishRoots(ctx, &keys); err != nil || begins {
		return replaced, err
	}
	return p.use(&keys), nil
}

// use replaces the keys, and reports whether they changed.
func (p *Publisher) use(keys *Keys) bool {
	before := p.keys.Load()
	replaced := !bytes.Equal(before.Root.Raw, keys.Root.Raw) || before.thumbprint != keys.thumbprint ||
		before.enrollThumbprint != keys.enrollThumbprint
	if replaced || len(before.Former) != len(keys.Former) {
		p.keys.Store(keys) // otherwise cached results of the current keys stay valid
	}
	return replaced
}

// checkNewest is CheckNewest for the keys in use. Keys that are being replaced are not outdated, because the newer root
// is the publisher's own.
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

// CheckKeys decides again whether agents would accept this publisher's signatures, and reports whether that changed.
// Publish refuses while the error is a *refusal.Error. After any other error the registry could not be read, and
// nothing changes.
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

// fit returns an error if publishing with the keys is not allowed.
func (p *Publisher) fit(keys *Keys) error {
	if refused := p.unfit.Load(); refused != nil {
		return refused
	}
	return keys.fit(p.Now())
}

// publishRoots publishes the roots that are not known to be published. An agent must know a key before it receives a
// signature of that key.
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
	p.rooted.CompareAndSwap(known, &rooted{keys.Root.Version, p.Now()}) // unless the record was reset in the meantime
	return nil
}

// PublishRoots publishes every version of the root of trust. This must happen before any bundle that its keys sign.
func (k *Keys) PublishRoots(ctx context.Context, place store.Store) error {
	_, err := k.publishRoots(ctx, place)
	return err
}

// publishRoots returns the versions that were missing.
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

// certificate returns the certificate for the runtime's next bundle. It keeps the last bundle's certificate if that is
// valid for the runtime's key, and issues another if the runtime requested it and renewal is due. checked is the last
// certificate that was found valid.
func (k *Keys) certificate(
	last *plan.Published, r plan.Runtime, validity time.Duration, checked *checkedCertificate, now time.Time,
) (string, error) {
	if r.Key == nil || k.Enroll == nil {
		return "", nil
	}
	var known string
	var renew time.Time
	if last != nil && last.Predicate.Certificate != "" {
		before, err := checked.check(k, last.Predicate.Certificate, r.ID, now)
		if err == nil && before.Thumbprint == r.Audience.KeyThumbprint &&
			(before.Kyma.IsZero() || before.Kyma.Is(r.Kyma)) {
			known, renew = last.Predicate.Certificate, before.RenewAt().Truncate(time.Second)
		}
	}
	if !r.Requests || known != "" && now.Before(renew) {
		return known, nil
	}
	from := now.UTC().Truncate(time.Second)
	return trust.IssueCertificate(k.Enroll, k.Root.Fleet, r.ID, r.Kyma, r.Key, from, from.Add(validity))
}
