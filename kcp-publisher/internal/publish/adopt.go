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

// adopt decides on which bundle the runtime's next bundle is based. It reads the registry if the last check is too old,
// or if the Kyma's status contains a newer bundle. checked is true if the registry was read and contains the published
// bundle.
func (p *Publisher) adopt(
	ctx context.Context, record *Record, runtime plan.Runtime, keys *Keys,
) (adopted plan.Adopted, checked bool, err error) {
	known, now := record.last, p.Now()
	if r := runtime.Remembered; known != nil && p.recently(record.checked) &&
		(r == nil || r.Sequence <= known.Predicate.Sequence && r.Epoch <= known.Predicate.Epoch) {
		return plan.Adopted{Last: known, Keep: true}, false, nil
	}
	stored, isRead, err := p.stored(ctx, runtime.ID, keys, known)
	if err != nil {
		return plan.Adopted{}, false, fmt.Errorf("read the last bundle of runtime %s: %w", runtime.ID, err)
	}
	adopted = plan.Adopt(known, runtime.Remembered, stored, keys.Root, now)
	var at time.Time
	switch {
	case adopted.Deviation == nil && isRead:
		at = now
	case adopted.Deviation == nil:
		// Choose a random time, so that the next checks of all runtimes are spread over time.
		at = now.Add(-rand.N(p.Recheck))
	}
	record.published(adopted.Kept(), stored.Digest, at)
	return adopted, adopted.Deviation == nil && adopted.Keep && isRead, nil
}

// stored returns the runtime's bundle in the registry. If it is the same bundle as known, stored only checks that the
// registry contains all of its blobs. isRead is true if the documents were checked.
func (p *Publisher) stored(
	ctx context.Context, runtime string, keys *Keys, known *plan.Published,
) (stored plan.Stored, isRead bool, err error) {
	repository, err := p.Place.Repository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return plan.Stored{}, false, err
	}
	if known == nil && p.Recheck > 0 {
		return read(ctx, repository, runtime, p.opened, keys.Root, keys.Former)
	}
	if known != nil {
		switch tag, err := store.Head(ctx, repository, bundle.TagDesired); {
		case errors.Is(err, store.ErrNotFound):
			return plan.Stored{}, true, nil
		case err != nil:
			return plan.Stored{}, false, err
		case tag != known.Digest:
			known = nil
		}
	}
	if known == nil {
		return read(ctx, repository, runtime, nil, keys.Root, keys.Former)
	}
	// Agents fetch the manifest by digest. Check the digest, too, because a registry can have the tag but not the
	// manifest.
	switch _, err := store.Head(ctx, repository, known.Digest.String()); {
	case errors.Is(err, store.ErrNotFound):
		return plan.Stored{Digest: known.Digest, Bundle: known}, true, nil
	case err != nil:
		return plan.Stored{}, false, err
	}
	whole, err := store.Has(ctx, repository, known.StateBlob, known.CatalogBlob)
	return plan.Stored{Digest: known.Digest, Bundle: known, Whole: whole}, true, err
}

// Read reads and verifies a runtime's bundle in the registry. If the bundle cannot be verified, Stored.Bundle is nil.
// An error means that the registry could not be read.
func Read(
	ctx context.Context, place store.Store, runtime string, root trust.Root, former ...trust.Root,
) (plan.Stored, error) {
	repository, err := place.Repository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return plan.Stored{}, err
	}
	stored, _, err := read(ctx, repository, runtime, nil, root, former)
	return stored, err
}

// read does the same as Read, but caches decoded desired states in opened. fetched is true if it fetched the documents.
func read(
	ctx context.Context, repository store.Reader, runtime string, opened *memo.Memo[documents, openedState],
	root trust.Root, former []trust.Root,
) (stored plan.Stored, fetched bool, err error) {
	manifest, err := store.Fetch(ctx, repository, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return plan.Stored{}, true, nil
	}
	if err != nil {
		return plan.Stored{}, false, err
	}
	stored = plan.Stored{Digest: digest.FromBytes(manifest.Bytes)}
	verified, err := bundle.Adopt(manifest, runtime, root, former...)
	if err != nil {
		return stored, true, nil //nolint:nilerr // the publisher replaces a bundle that it cannot verify
	}
	stored.Key = verified.KeyThumbprint
	stored.Bundle = &plan.Published{
		Predicate: verified.Statement.Predicate, Digest: verified.Digest, StateBlob: verified.Config,
		CatalogBlob: verified.Catalog,
	}
	var state openedState
	var known bool
	if opened != nil {
		state, known = opened.Find(documentsOf(verified))
	}
	if !known {
		complete, err := store.FetchBundle(ctx, repository, verified)
		switch {
		case refusal.Of(err) != nil, errors.Is(err, store.ErrNotFound):
			return stored, true, nil
		case err != nil:
			return plan.Stored{}, false, err
		}
		state = openedState{complete.State, resolve.Versions(complete.State), int(verified.Config.Size)}
		if opened != nil {
			opened.Put(documentsOf(verified), state)
		}
	}
	stored.Whole, stored.Bundle.State, stored.Bundle.Versions = true, state.DesiredState, state.versions
	return stored, !known, nil
}

// Release drops the cached data of a runtime. It must be called before a Record is discarded.
func (p *Publisher) Release(record *Record) { p.resolved.Release(&record.resolution) }
