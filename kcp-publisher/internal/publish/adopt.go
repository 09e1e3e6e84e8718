package publish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// adoptBundle selects the existing bundle that the runtime's next bundle is based on. It reads the registry if the
// last check is older than RecheckInterval, or if the Kyma's status contains a newer bundle than the last one that
// this process pushed or read. checked is true if adoptBundle read the registry and found the published bundle there.
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
// again, but checks that the registry contains all of its blobs. isRead is false if the bundle's documents were taken
// from a cache. In this case, the registry might not contain them.
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
	switch {
	case errors.Is(err, store.ErrNotFound):
		return plan.StoredBundle{}, true, nil
	case refusal.Of(err) != nil: // the publisher replaces a manifest that is too large
		return plan.StoredBundle{Digest: manifest.Descriptor.Digest}, true, nil
	case err != nil:
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

// Drop drops a runtime's cached data. Callers must call it before they discard a Record.
func (r *Record) Drop() { r.resolution.Release() }

// Newest returns a runtime's latest bundle without publishing another one, or nil if it found no valid bundle.
func (p *Publisher) Newest(ctx context.Context, record *Record, runtime plan.Runtime) (*plan.PublishedBundle, error) {
	if err := trust.CheckRuntimeID(runtime.ID); err != nil {
		return nil, err
	}
	adopted, _, err := p.adoptBundle(ctx, record, runtime, p.keys.Load())
	if err != nil {
		return nil, err
	}
	return adopted.KeptBundle(), nil
}

// ErrWouldBeRefused means that agents would refuse the last bundle now, so it was not renewed.
var ErrWouldBeRefused = errors.New("agents would refuse the bundle")

// Renew pushes a runtime's last bundle again with a later expiry if a renewal is due. The modules in the bundle do
// not change, so Renew returns an error if agents would refuse one of them now. It returns the runtime's latest bundle,
// or nil if it found no valid bundle.
func (p *Publisher) Renew(
	ctx context.Context, record *Record, runtime plan.Runtime,
) (newest *plan.PublishedBundle, pushed bool, err error) {
	keys := p.keys.Load()
	if err := p.checkFit(keys); err != nil {
		return nil, false, fmt.Errorf("renew the bundle of runtime %s: %w", runtime.ID, err)
	}
	adopted, _, err := p.adoptBundle(ctx, record, runtime, keys)
	if err != nil {
		return nil, false, err
	}
	last := adopted.KeptBundle()
	if last == nil || adopted.Deviation != nil || adopted.IsUnrecorded(runtime.RecordedBundle) {
		return last, false, nil
	}
	next, needed := plan.RenewBundle(adopted, runtime, keys.Root, max(p.Validity, runtime.Validity), p.Now())
	if !needed {
		return last, false, nil
	}
	if err := p.checkRenewal(ctx, keys.Root, last.State); err != nil {
		return last, false, fmt.Errorf("renew the bundle of runtime %s: %w: %w", runtime.ID, ErrWouldBeRefused, err)
	}
	documents, err := p.readDocuments(ctx, runtime.ID, last)
	if err == nil {
		resolved := &resolution{
			result: resolve.Result{State: last.State, Versions: last.Versions}, documents: documents,
		}
		newest, err = p.pushBundle(ctx, record, runtime.ID, keys, resolved, next, last, nil)
	}
	if errors.Is(err, errTagChanged) || errors.Is(err, errKeysReplaced) {
		record.RequestCheck()
		return last, false, nil // the next reconcile retries
	}
	if err != nil {
		return nil, false, fmt.Errorf("renew the bundle of runtime %s: %w", runtime.ID, err)
	}
	return newest, true, nil
}

func (p *Publisher) readDocuments(
	ctx context.Context, runtime string, last *plan.PublishedBundle,
) (documents bundle.Documents, err error) {
	repository, err := p.Place.Repository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return documents, err
	}
	documents.State.Descriptor, documents.Catalog.Descriptor = last.StateBlob, last.CatalogBlob
	if documents.State.Bytes, err = store.FetchBlob(ctx, repository, last.StateBlob,
		bundle.MaxDocumentBytes); err != nil {
		return documents, err
	}
	documents.Catalog.Bytes, err = store.FetchBlob(ctx, repository, last.CatalogBlob, bundle.MaxDocumentBytes)
	return documents, err
}

// Record contains a Publisher's cached data about one runtime. A zero Record is valid for a new runtime. A Record is
// not safe for concurrent use. If the runtime ID changes, call Drop and use a new Record.
type Record struct {
	// lastBundle is the bundle on which the runtime's next bundle is based, or nil. This process has pushed it or
	// found it in the registry.
	lastBundle *plan.PublishedBundle
	// tag is the digest to which the tag of the runtime's bundle referred at the last check or push.
	tag digest.Digest
	// checkedAt is the last time at which this process pushed lastBundle or found it in the registry. If it is zero,
	// the next reconcile reads the registry.
	checkedAt   time.Time
	documents   writeLimit
	certificate certificateCache
	resolution  memo.Holder[resolutionKey, *resolution]
}

// NewestPosition returns the epoch, the sequence number and the digest of lastBundle, or zero.
func (r *Record) NewestPosition() plan.RecordedBundle {
	if r.lastBundle == nil {
		return plan.RecordedBundle{}
	}
	return plan.RecordedBundle{Epoch: r.lastBundle.Predicate.Epoch, Sequence: r.lastBundle.Predicate.Sequence,
		Digest: r.lastBundle.Digest}
}

// RequestCheck makes the next reconcile read the registry and check whether it contains the published bundle.
func (r *Record) RequestCheck() { r.checkedAt = time.Time{} }

func (r *Record) setPublished(last *plan.PublishedBundle, tag digest.Digest, checked time.Time) {
	r.lastBundle, r.tag, r.checkedAt = last, tag, checked
}

const (
	// maxDocumentBytes limits the total size of the new documents that the publisher uploads for one runtime within
	// documentPeriod. Without the limit, a runtime could fill the registry by changing its module request again and
	// again.
	maxDocumentBytes = 4 * bundle.MaxDocumentBytes
	documentPeriod   = 24 * time.Hour
)

// writeLimit enforces maxDocumentBytes for one runtime.
type writeLimit struct {
	limiter *rate.Limiter
	// countedState is the digest of the last desired state whose documents were counted. These documents are not
	// counted a second time.
	countedState digest.Digest
}

// check returns an error if new documents of the given size, in bytes, would exceed the runtime's limit. state is the
// digest of the desired state in these documents.
func (a *writeLimit) check(state digest.Digest, size int, now time.Time) error {
	if a.countedState == state || a.newLimiter().TokensAt(now) >= float64(size) {
		return nil
	}
	return fmt.Errorf(
		"the desired state changes too often: %d MiB of documents were written for the runtime within %s; find the "+
			"program that changes its Kyma", maxDocumentBytes>>20, documentPeriod)
}

func (a *writeLimit) spend(state digest.Digest, size int, now time.Time) {
	if a.countedState != state {
		a.newLimiter().AllowN(now, size)
		a.countedState = state
	}
}

func (a *writeLimit) newLimiter() *rate.Limiter {
	if a.limiter == nil {
		a.limiter = rate.NewLimiter(rate.Limit(maxDocumentBytes/documentPeriod.Seconds()), maxDocumentBytes)
	}
	return a.limiter
}

// certificateCache caches the agent's last valid certificate and the keys that were used to verify it.
type certificateCache struct {
	keys          *Keys
	text, runtime string
	trust.Certificate
}

// check verifies a certificate like Root.CheckCertificate, or returns the cached result.
func (c *certificateCache) check(keys *Keys, text, runtime string, now time.Time) (trust.Certificate, error) {
	if c.keys == keys && c.text == text && c.runtime == runtime && c.Covers(now) {
		return c.Certificate, nil
	}
	fresh, err := keys.Root.CheckCertificate(text, runtime, now)
	if err != nil {
		return trust.Certificate{}, err
	}
	fresh.Key = nil
	*c = certificateCache{keys, text, runtime, fresh}
	return fresh, nil
}
