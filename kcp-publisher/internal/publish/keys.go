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

// Keys contains a Publisher's signing keys and the root of trust that lists them.
type Keys struct {
	Root trust.Root
	// Former contains earlier versions of the root. The publisher also recognizes bundles that were signed with a key
	// in one of these versions.
	Former []trust.Root
	Signer trust.Signer
	// Enroll signs agents' certificates, or is nil if no enrollment key is configured.
	Enroll trust.Signer

	thumbprint, enrollThumbprint string
}

// identify computes the thumbprints of the keys.
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

// Fit returns an error if agents would refuse signatures made with the keys now. It does not read the registry. A
// refusal is a *refusal.Error.
func (k Keys) Fit(now time.Time) error {
	if err := k.identify(); err != nil {
		return err
	}
	return k.fit(now)
}

// fit implements Fit for keys whose thumbprints are set.
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

// CheckNewest returns a *refusal.Error if a store contains a newer version of the root, because agents follow the newer
// root, which possibly does not list these keys. Other errors mean that the store could not be read. Like agents,
// CheckNewest ignores a root that is not a valid successor.
func (k *Keys) CheckNewest(ctx context.Context, place store.Store) error {
	newest, _, _, err := store.FollowRoot(ctx, place, k.Root)
	// A folder to which nothing was published yet contains no newer root.
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// ReplaceKeys replaces the keys of a running Publisher. It returns true if the keys changed, in which case every
// runtime needs a new bundle. It publishes the new roots first, even if they no longer list the publisher's own key,
// because agents must receive a revocation. A publisher that has not published a root yet, such as a former standby,
// replaces its keys before it publishes the roots and keeps the new keys after an error, because its old keys may have
// been revoked since its start. The publisher does not publish bundles with keys that agents would refuse; see
// CheckKeys.
func (p *Publisher) ReplaceKeys(ctx context.Context, keys Keys) (replaced bool, err error) {
	if err := keys.identify(); err != nil {
		return false, err
	}
	p.keysLock.Lock()
	defer p.keysLock.Unlock()
	begins := p.publishedRoot.Load() == nil
	if begins {
		inUse := keys // a copy, so checkNewest does not treat the pointer &keys as the keys in use
		replaced = p.use(&inUse)
	}
	if err := p.publishRoots(ctx, &keys); err != nil || begins {
		return replaced, err
	}
	return p.use(&keys), nil
}

// use replaces the keys and reports whether they changed.
func (p *Publisher) use(keys *Keys) bool {
	before := p.keys.Load()
	replaced := !bytes.Equal(before.Root.Raw, keys.Root.Raw) || before.thumbprint != keys.thumbprint ||
		before.enrollThumbprint != keys.enrollThumbprint
	if replaced || len(before.Former) != len(keys.Former) {
		p.keys.Store(keys) // only for changed keys, because caches compare the pointer
	}
	return replaced
}

// checkNewest calls CheckNewest if the keys are in use. While keys are being replaced, a newer root is expected,
// because the publisher itself publishes that root.
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

// CheckKeys checks whether agents would accept this publisher's signatures, and reports whether the result changed.
// After a *refusal.Error, Publish fails until a later check succeeds. Any other error means that the registry could not
// be read and the previous result still applies.
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

// fit returns an error if agents would refuse bundles signed with the keys.
func (p *Publisher) fit(keys *Keys) error {
	if refused := p.unfit.Load(); refused != nil {
		return refused
	}
	return keys.fit(p.Now())
}

// publishRoots publishes the versions of the root that are missing in the registry. Agents need the root that lists a
// key before they receive a signature of that key.
func (p *Publisher) publishRoots(ctx context.Context, keys *Keys) error {
	known := p.publishedRoot.Load()
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
	// CompareAndSwap does nothing if another goroutine changed publishedRoot concurrently.
	p.publishedRoot.CompareAndSwap(known, &publishedRoot{keys.Root.Version, p.Now()})
	return nil
}

// PublishRoots publishes every version of the root of trust. Callers must publish the roots before any bundle that is
// signed with these keys.
func (k *Keys) PublishRoots(ctx context.Context, place store.Store) error {
	_, err := k.publishRoots(ctx, place)
	return err
}

// publishRoots implements PublishRoots and returns the versions that were missing.
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

// certificate returns the certificate for the runtime's next bundle. It keeps the certificate of the last bundle if it
// is valid for the runtime's key, and issues a new certificate if the runtime requested one and renewal is due. checked
// caches the last valid certificate.
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
