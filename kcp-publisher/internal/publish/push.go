package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// maxAttempts limits the attempts to publish a bundle. Another attempt is necessary if another process pushes a bundle
// at the same time, or if the keys are replaced.
const maxAttempts = 3

// ErrPushNotAllowed means that MayPush returned an error, because this process does not hold the Lease.
var ErrPushNotAllowed = errors.New("not published")

// ErrOutdatedDecision means that the bundle was not pushed, because the decisions on which it is based changed first.
// For example, a rollout was rolled back while the registry responded slowly.
var ErrOutdatedDecision = errors.New("the catalog or a rollout changed at the same time")

// errTagChanged means that the tag of the runtime's bundle in the registry was changed between reading it and pushing
// the new bundle.
var errTagChanged = errors.New("another bundle was pushed at the same time")

// errKeysReplaced means that the bundle was not pushed, because the keys were replaced first and the old keys may be
// revoked.
var errKeysReplaced = errors.New("the keys were replaced at the same time")

// pushBundle signs a bundle and pushes it with its documents. isCurrent is the field of the Input, or nil.
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
				// The runtime's repository does not contain this blob yet. PlaceDocuments mounts it from the shared one.
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
