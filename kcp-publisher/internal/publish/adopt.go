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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

// memory is what a Publisher knows of one runtime's repository.
type memory struct {
	// last is what it published or adopted, nil for nothing.
	last *plan.Published
	// tag is what the repository's tag named at the last look, or what was pushed since.
	tag digest.Digest
	// at is when the registry was found to hold last, zero when it has to be looked at.
	at time.Time
}

// adopt returns what the next bundle of a runtime follows. The registry is looked at when that was not done for a while, and when the
// status remembers something else; checked says that it was, and that it holds what was published.
func (p *Publisher) adopt(ctx context.Context, runtime plan.Runtime, keys *Keys) (adopted plan.Adopted, checked bool, err error) {
	known, now := p.remembered(runtime.ID), p.Now()
	if r := runtime.Remembered; known.last != nil && p.recently(known.at) && (r == nil || r.Sequence <= known.last.Predicate.Sequence && r.Epoch <= known.last.Predicate.Epoch) {
		return plan.Adopted{Last: known.last, Keep: true}, false, nil
	}
	stored, looked, err := p.stored(ctx, runtime.ID, keys, known.last)
	if err != nil {
		return plan.Adopted{}, false, fmt.Errorf("read the last bundle of runtime %s: %w", runtime.ID, err)
	}
	adopted = plan.Adopt(known.last, runtime.Remembered, stored, keys.Root, now)
	found := memory{last: adopted.Kept(), tag: stored.Digest}
	switch {
	case adopted.Deviation == nil && looked:
		found.at = now
	case adopted.Deviation == nil:
		found.at = now.Add(-rand.N(p.Recheck)) // not all of a fleet at once
	}
	p.remember(runtime.ID, found)
	return adopted, adopted.Deviation == nil && adopted.Keep && looked, nil
}

// stored returns what lies in the registry. Of the bundle that is known already it only asks whether all of it is there. A process that starts
// fetches documents that many bundles have once; looked says whether it was asked for those of this bundle.
func (p *Publisher) stored(ctx context.Context, runtime string, keys *Keys, known *plan.Published) (stored plan.Stored, looked bool, err error) {
	repository, err := p.Place.Repository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return plan.Stored{}, false, err
	}
	if known == nil && p.Recheck > 0 {
		return read(ctx, repository, runtime, &p.opened, keys.Root, keys.Former)
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
	// Agents fetch the manifest by its digest, which a registry may have lost as well.
	switch _, err := store.Head(ctx, repository, known.Digest.String()); {
	case errors.Is(err, store.ErrNotFound):
		return plan.Stored{Digest: known.Digest, Bundle: known}, true, nil
	case err != nil:
		return plan.Stored{}, false, err
	}
	whole, err := store.Has(ctx, repository, known.StateBlob, known.CatalogBlob)
	return plan.Stored{Digest: known.Digest, Bundle: known, Whole: whole}, true, err
}

// Read returns what lies in the registry for a runtime, judged by the newest root of trust and earlier versions of it. The error is only of
// the registry.
func Read(ctx context.Context, place store.Store, runtime string, root trust.Root, former ...trust.Root) (plan.Stored, error) {
	repository, err := place.Repository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return plan.Stored{}, err
	}
	stored, _, err := read(ctx, repository, runtime, nil, root, former)
	return stored, err
}

// read is Read. Documents that were opened before are not fetched; fetched says that all were.
func read(ctx context.Context, repository store.Reader, runtime string, opened *opened, root trust.Root, former []trust.Root) (stored plan.Stored, fetched bool, err error) {
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
		return stored, true, nil //nolint:nilerr // what no publisher of this fleet signed is replaced
	}
	stored.Key = verified.KeyThumbprint
	stored.Bundle = &plan.Published{
		Predicate: verified.Statement.Predicate, Digest: verified.Digest, StateBlob: verified.Config, CatalogBlob: verified.Catalog,
	}
	state, known := opened.find(verified)
	if !known {
		complete, err := store.FetchBundle(ctx, repository, verified)
		switch {
		case refusal.Of(err) != nil, errors.Is(err, store.ErrNotFound):
			return stored, true, nil
		case err != nil:
			return plan.Stored{}, false, err
		}
		state = openedState{complete.State, resolve.Versions(complete.State)}
		opened.remember(verified, state)
	}
	stored.Whole, stored.Bundle.State, stored.Bundle.Versions = true, state.DesiredState, state.versions
	return stored, !known, nil
}

func (p *Publisher) remembered(runtime string) memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[runtime]
}

func (p *Publisher) remember(runtime string, m memory) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[runtime] = m
}

// Newest returns the position of the newest bundle that this process published or adopted, zero for none.
func (p *Publisher) Newest(runtime string) plan.Memory {
	last := p.remembered(runtime).last
	if last == nil {
		return plan.Memory{}
	}
	return plan.Memory{Epoch: last.Predicate.Epoch, Sequence: last.Predicate.Sequence, Digest: last.Digest}
}

// Forget makes the registry be asked what it holds of a runtime. What was published is remembered all the same.
func (p *Publisher) Forget(runtime string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.known[runtime]; ok {
		known.at = time.Time{}
		p.known[runtime] = known
	}
}

// Drop forgets all about a runtime that is gone.
func (p *Publisher) Drop(runtime string) {
	p.mu.Lock()
	delete(p.known, runtime)
	p.mu.Unlock()
	p.resolved.release(runtime)
	p.documents.release(runtime)
	p.certificates.release(runtime)
}
