package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// maxAttempts limits the attempts to publish a bundle. Another attempt is necessary if another process pushes a bundle
// at the same time, or if the keys are replaced.
const maxAttempts = 3

// ErrPushNotAllowed means that MayPush returned an error, because this process does not hold the Lease.
var ErrPushNotAllowed = errors.New("not published")

// ErrOutdatedDecision means that the bundle was not pushed, because the decisions on which it is based changed before
// the push. For example, a rollout was rolled back while the registry responded slowly.
var ErrOutdatedDecision = errors.New("the catalog or a rollout changed at the same time")

// errTagChanged means that the tag of the runtime's bundle changed after the publisher read it and before the
// publisher pushed the new bundle.
var errTagChanged = errors.New("another bundle was pushed at the same time")

// errKeysReplaced means that the bundle was not pushed, because the keys were replaced before the push and the old
// keys may be revoked.
var errKeysReplaced = errors.New("the keys were replaced at the same time")

// pushBundle signs a bundle and pushes it with its documents. isCurrent is Input.IsCurrent, or nil.
func (p *Publisher) pushBundle(
	ctx context.Context, record *Record, runtime string, keys *Keys, resolved *resolution, predicate bundle.Predicate,
	kept *plan.PublishedBundle, isCurrent func() bool,
) (*plan.PublishedBundle, error) {
	manifest, err := bundle.Compose(resolved.documents, predicate, keys.Signer)
	if err != nil {
		return nil, err
	}
	if err := p.publishRoots(ctx, keys); err != nil {
		return nil, err
	}
	if err := p.shareDocuments(ctx, record, resolved.documents); err != nil {
		return nil, err
	}
	if p.keys.Load() != keys {
		return nil, errKeysReplaced
	}
	mayPush := func() error { return p.checkPush(isCurrent) }
	if err := p.replaceBundle(ctx, record, runtime, resolved.documents, manifest, mayPush); err != nil {
		if !errors.Is(err, ErrOutdatedDecision) {
			// The failed push may have changed the tag, so the next attempt must read the registry again.
			record.RequestCheck()
			p.resetShared()
		}
		return nil, err
	}
	next := &plan.PublishedBundle{
		Predicate: predicate, Digest: manifest.Descriptor.Digest, State: resolved.result.State,
		Versions:  resolved.result.Versions,
		StateBlob: resolved.documents.State.Descriptor, CatalogBlob: resolved.documents.Catalog.Descriptor,
	}
	if kept != nil {
		next.Changes = p.changesBetween(kept, next)
	}
	record.setPublished(next, next.Digest, p.Now())
	return next, nil
}

// checkPush returns an error if this process must not push a bundle now.
func (p *Publisher) checkPush(isCurrent func() bool) error {
	if p.MayPush != nil {
		if err := p.MayPush(); err != nil {
			return fmt.Errorf("%w: %w", ErrPushNotAllowed, err)
		}
	}
	if isCurrent != nil && !isCurrent() {
		return ErrOutdatedDecision
	}
	return nil
}

// replaceBundle pushes the bundle. It returns errTagChanged if the tag has changed since it was read. It calls mayPush
// before the first write, and again before it pushes the manifest, because each request can take seconds.
func (p *Publisher) replaceBundle(
	ctx context.Context, record *Record, runtime string, documents bundle.Documents, manifest bundle.Blob,
	mayPush func() error,
) error {
	repository, err := p.Place.Repository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return err
	}
	there, err := store.Head(ctx, repository, bundle.TagDesired)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if there != record.tag {
		return errTagChanged
	}
	present := map[digest.Digest]bool{}
	if last := record.lastBundle; last != nil {
		for _, blob := range []ocispec.Descriptor{documents.State.Descriptor, documents.Catalog.Descriptor} {
			if blob.Digest != last.StateBlob.Digest && blob.Digest != last.CatalogBlob.Digest {
				// The runtime's repository does not contain this blob yet. PlaceDocuments mounts it from the shared
				// one.
				continue
			}
			if present[blob.Digest], err = store.Has(ctx, repository, blob); err != nil {
				return err
			}
		}
	}
	if err := mayPush(); err != nil {
		return err
	}
	if err := store.PlaceDocuments(ctx, p.Place, runtime, documents, func(d digest.Digest) bool {
		return present[d]
	}); err != nil {
		return err
	}
	if err := mayPush(); err != nil {
		return err
	}
	return store.PushBundleManifest(ctx, p.Place, runtime, manifest)
}

const maxShared = 20_000

// shareDocuments uploads a bundle's documents to the repository that all runtimes share, if they are missing there. It
// returns an error if the runtime exceeds its limit for new documents.
func (p *Publisher) shareDocuments(ctx context.Context, record *Record, documents bundle.Documents) error {
	state, size := documents.State.Descriptor.Digest, p.unsharedSize(documents.State)+p.unsharedSize(documents.Catalog)
	if err := record.documents.check(state, size, p.Now()); err != nil {
		return err
	}
	_, err := p.ensureShared(ctx, documents, func() { record.documents.spend(state, size, p.Now()) })
	return err
}

// restoreShared uploads a published bundle's documents again if they are missing in the shared repository. If checked
// is false, the publisher has not checked the bundle in the registry, and restoreShared does nothing.
func (p *Publisher) restoreShared(ctx context.Context, checked bool, documents bundle.Documents) error {
	if !checked {
		return nil
	}
	missing, err := p.ensureShared(ctx, documents, func() {})
	if missing && err == nil && p.OnRestored != nil {
		p.OnRestored(ctx, "documents "+documents.State.Descriptor.Digest.String()+" and "+
			documents.Catalog.Descriptor.Digest.String())
	}
	return err
}

// ensureShared uploads documents that are missing in the shared repository, and then calls onChecked. It returns true
// if a document was missing. If the documents were checked recently, it does nothing.
func (p *Publisher) ensureShared(
	ctx context.Context, documents bundle.Documents, onChecked func(),
) (missing bool, err error) {
	state, catalog := documents.State.Descriptor.Digest, documents.Catalog.Descriptor.Digest
	p.mu.Lock()
	recently := p.isRecent(p.sharedSince[state]) && p.isRecent(p.sharedSince[catalog])
	p.mu.Unlock()
	if recently {
		return false, nil
	}
	_, err, _ = p.uploads.Do(state.String()+catalog.String(), func() (any, error) {
		if missing, err = store.EnsureDocuments(ctx, p.Place, documents); err != nil {
			return nil, err
		}
		onChecked()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.sharedSince) > maxShared {
			clear(p.sharedSince)
		}
		p.sharedSince[state], p.sharedSince[catalog] = p.Now(), p.Now()
		return nil, nil
	})
	return missing, err
}

// resetShared must be called if the shared repository may have lost documents. It makes ensureShared check all
// documents again.
func (p *Publisher) resetShared() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for document := range p.sharedSince {
		// Do not use a zero time. The document would then count as new, and count toward a runtime's limit again.
		p.sharedSince[document] = time.Unix(0, 0)
	}
}

// isRecent reports whether less than RecheckInterval has passed since seen, the time at which an object was last
// found in the registry. A recently found object does not have to be checked again.
func (p *Publisher) isRecent(seen time.Time) bool {
	now := p.Now()
	return !seen.IsZero() && !now.Before(seen) && now.Sub(seen) < p.RecheckInterval
}

// unsharedSize returns the size of a document in bytes if the document is new. It returns 0 if this process has already
// found it in the shared repository.
func (p *Publisher) unsharedSize(document bundle.Blob) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.sharedSince[document.Descriptor.Digest].IsZero() {
		return 0
	}
	return len(document.Bytes)
}

// nextCertificate returns the agent certificate for the runtime's next bundle. It issues a new certificate if the agent
// requested one and a renewal is due. Otherwise, it returns the certificate in the last bundle. checked caches the last
// valid certificate.
func (k *Keys) nextCertificate(
	last *plan.PublishedBundle, r plan.Runtime, validity time.Duration, checked *certificateCache, now time.Time,
) (string, error) {
	if r.Key == nil || k.EnrollSigner == nil {
		return "", nil
	}
	var known string
	var renew time.Time
	if last != nil && last.Predicate.Certificate != "" {
		before, err := checked.check(k, last.Predicate.Certificate, r.ID, now)
		if err == nil && before.Thumbprint == r.Audience.KeyThumbprint &&
			(before.Kyma.IsZero() || before.Kyma.Matches(r.Kyma)) {
			known, renew = last.Predicate.Certificate, before.RenewAt().Truncate(time.Second)
		}
	}
	if !r.RequestsCertificate || known != "" && now.Before(renew) {
		return known, nil
	}
	from := now.UTC().Truncate(time.Second)
	return trust.IssueCertificate(k.EnrollSigner, k.Root.Fleet, r.ID, r.Kyma, r.Key, from, from.Add(validity))
}
