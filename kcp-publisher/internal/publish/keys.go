package publish

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/plan"
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

func (k *Keys) check() error {
	var err error
	if k.thumbprint, err = thumbprintOf(k.Signer); err != nil {
		return fmt.Errorf("read the publisher key: %w", err)
	}
	if !k.Root.Trusts(k.thumbprint) {
		return fmt.Errorf("publisher key %s is not listed in the root of trust: no runtime would accept its bundles", k.thumbprint)
	}
	if k.Enroll == nil {
		return nil
	}
	if k.enrollThumbprint, err = thumbprintOf(k.Enroll); err != nil {
		return fmt.Errorf("read the enrollment key: %w", err)
	}
	if !k.Root.TrustsEnroll(k.enrollThumbprint) {
		return fmt.Errorf("enrollment key %s is not listed in the root of trust: no certificate of it would be accepted", k.enrollThumbprint)
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

// TakeUp replaces the keys of a Publisher at work, and reports whether they are others than before: every runtime needs a new bundle then.
// Their roots are published first, also when the publisher's own key is not listed any more: a revocation has to arrive. That is an
// error, because no runtime would follow what is signed, and the keys before stay in use.
func (p *Publisher) TakeUp(ctx context.Context, keys Keys) (bool, error) {
	if err := p.publishRoots(ctx, &keys); err != nil {
		return false, err
	}
	if err := keys.check(); err != nil {
		return false, err
	}
	before := p.keys.Swap(&keys)
	return !bytes.Equal(before.Root.Raw, keys.Root.Raw) || before.thumbprint != keys.thumbprint || before.enrollThumbprint != keys.enrollThumbprint, nil
}

// publishRoots makes the roots lie there that are not known to. An agent must know a key before it sees what the key signed.
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

// certificate returns the certificate that the runtime's next bundle brings: the one of the last bundle as long as it is for the
// runtime's key and good, another when the runtime asked for one and it is time.
func (k *Keys) certificate(last *plan.Published, r plan.Runtime, validity time.Duration, now time.Time) (string, error) {
	if r.Key == nil || k.Enroll == nil {
		return "", nil
	}
	var known string
	var renew time.Time
	if last != nil && last.Predicate.Certificate != "" {
		before, err := k.Root.CheckCertificate(last.Predicate.Certificate, r.ID, now)
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
