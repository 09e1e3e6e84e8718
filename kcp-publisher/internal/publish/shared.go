package publish

import (
	"context"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

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
// is false, it does nothing, because the publisher has not checked the bundle itself, either.
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
		// Do not use a zero time, because the document would then count as new, and toward a runtime's limit again.
		p.sharedSince[document] = time.Unix(0, 0)
	}
}

// isRecent reports whether the time seen, at which an object was last found in the registry, is less than
// RecheckInterval ago. If so, the object does not have to be checked again.
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
