package publish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// adoptBundle decides on which existing bundle the runtime's next bundle is based. It reads the registry if the last
// check is older than RecheckInterval, or if the Kyma's status contains a newer bundle than the last one that this
// process pushed or read. checked is true if it read the registry and found the published bundle there.
func (p *Publisher) adoptBundle(
	ctx context.Context, record *Record, runtime plan.Runtime, keys *Keys,
) (adopted plan.Adoption, checked bool, err error) {
	known, now := record.lastBundle, p.Now()
	if r := runtime.RecordedBundle; known != nil && p.isRecent(record.checkedAt) &&
		(r == nil || r.Sequence <= known.Predicate.Sequence && r.Epoch <= known.Predicate.Epoch) {
		return plan.Adoption{LastBundle: known, MayKeep: true}, false, nil
	}
	stored, isRead, err := p.readStored(ctx, runtime.ID, keys, known)
	if err != nil {
		return plan.Adoption{}, false, fmt.Errorf("read the last bundle of runtime %s: %w", runtime.ID, err)
	}
	adopted = plan.Adopt(known, runtime.RecordedBundle, stored, keys.Root, now)
	var at time.Time
	switch {
	case adopted.Deviation == nil && isRead:
		at = now
	case adopted.Deviation == nil:
		// Choose a random time, so that the next checks of all runtimes are spread over time.
		at = now.Add(-rand.N(p.RecheckInterval))
	}
	record.setPublished(adopted.KeptBundle(), stored.Digest, at)
	return adopted, adopted.Deviation == nil && adopted.MayKeep && isRead, nil
}

// readStored returns the runtime's bundle in the registry. If it is the known bundle, readStored does not fetch it
// again, but checks that the registry contains all of its blobs. isRead is false if the documents of the bundle were
// taken from a cache, so that the registry might not contain them.
func (p *Publisher) readStored(
	ctx context.Context, runtime string, keys *Keys, known *plan.PublishedBundle,
) (stored plan.StoredBundle, isRead bool, err error) {
	repository, err := p.Place.Repository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return plan.StoredBundle{}, false, err
	}
	if known == nil && p.RecheckInterval > 0 {
		return readCached(ctx, repository, runtime, p.opened, keys.Root, keys.FormerRoots)
	}
	if known != nil {
		switch tag, err := store.Head(ctx, repository, bundle.TagDesired); {
		case errors.Is(err, store.ErrNotFound):
			return plan.StoredBundle{}, true, nil
		case err != nil:
			return plan.StoredBundle{}, false, err
		case tag != known.Digest:
			known = nil
		}
	}
	if known == nil {
		return readCached(ctx, repository, runtime, nil, keys.Root, keys.FormerRoots)
	}
	// Agents fetch the manifest by digest. Check the digest, too, because a registry can have the tag but not the
	// manifest.
	switch _, err := store.Head(ctx, repository, known.Digest.String()); {
	case errors.Is(err, store.ErrNotFound):
		return plan.StoredBundle{Digest: known.Digest, Bundle: known}, true, nil
	case err != nil:
		return plan.StoredBundle{}, false, err
	}
	whole, err := store.Has(ctx, repository, known.StateBlob, known.CatalogBlob)
	return plan.StoredBundle{Digest: known.Digest, Bundle: known, IsComplete: whole}, true, err
}

// readCached reads and verifies a runtime's bundle in the registry. If the bundle cannot be verified, the field Bundle
// of the result is nil. An error means that the registry could not be read. opened caches decoded desired states and
// can be nil. fetched is false if readCached used a cached state and did not fetch the bundle's documents.
func readCached(
	ctx context.Context, repository store.Reader, runtime string, opened *memo.Memo[documentsKey, decodedState],
	root trust.Root, former []trust.Root,
) (stored plan.StoredBundle, fetched bool, err error) {
	manifest, err := store.Fetch(ctx, repository, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return plan.StoredBundle{}, true, nil
	}
	if err != nil {
		return plan.StoredBundle{}, false, err
	}
	stored = plan.StoredBundle{Digest: digest.FromBytes(manifest.Bytes)}
	verified, err := bundle.Adopt(manifest, runtime, root, former...)
	if err != nil {
		return stored, true, nil //nolint:nilerr // the publisher replaces a bundle that it cannot verify
	}
	stored.Key = verified.KeyThumbprint
	stored.Bundle = &plan.PublishedBundle{
		Predicate: verified.Statement.Predicate, Digest: verified.Digest, StateBlob: verified.Config,
		CatalogBlob: verified.Catalog,
	}
	var state decodedState
	var known bool
	if opened != nil {
		state, known = opened.Get(documentDigests(verified))
	}
	if !known {
		complete, err := store.FetchBundle(ctx, repository, verified)
		switch {
		case refusal.Of(err) != nil, errors.Is(err, store.ErrNotFound):
			return stored, true, nil
		case err != nil:
			return plan.StoredBundle{}, false, err
		}
		state = decodedState{complete.State, resolve.ModuleVersions(complete.State)}
		if opened != nil {
			opened.Put(documentDigests(verified), state)
		}
	}
	stored.IsComplete, stored.Bundle.State, stored.Bundle.Versions = true, state.DesiredState, state.versions
	return stored, !known, nil
}

// DropRecord drops the cached data of a runtime. Callers must call it before they discard a Record.
func (p *Publisher) DropRecord(record *Record) { p.resolved.Release(&record.resolution) }
