// Package publish brings one runtime's repository in line with what its Kyma asks for: a request goes in, at most one bundle
// goes out. It remembers nothing that the registry does not: after a restart what lies there is read, checked and adopted, so
// that no bundle is pushed twice and none is skipped.
package publish

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/singleflight"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
)

// Options are what a Publisher needs.
type Options struct {
	Place      store.Store
	Keys       Keys
	Components *component.Reader
	// Requires reports whether components of a name have to be signed; nil means that none has.
	Requires func(component string) bool
	// Validity is how long a bundle is valid; it is renewed after a third.
	Validity time.Duration
	// CertificateValidity is the life of an agent's certificate; it is renewed after a third.
	CertificateValidity time.Duration
	Now                 func() time.Time
	// AttachCosign signs every bundle once more, for `cosign verify`: two more blobs and up to two more manifests per bundle.
	AttachCosign bool
}

// Publisher publishes bundles. It is safe for concurrent use, for one runtime at a time.
type Publisher struct {
	Options // its Keys are those of the start
	keys    atomic.Pointer[Keys]
	// rooted is the newest version of the root of trust that is known to lie where agents look for it.
	rooted  atomic.Int64
	sharing singleflight.Group

	mu     sync.Mutex // guards what follows
	last   map[string]*plan.Published
	shared map[digest.Digest]bool
	// resolved holds the result of equal requests; it is emptied when it has grown large.
	resolved map[string]*resolution
}

type resolution struct {
	result    resolve.Result
	documents bundle.Documents
}

// maxResolved bounds the remembered results: a fleet has some hundred distinct requests.
const maxResolved = 2_000

// New returns a Publisher.
func New(options Options) (*Publisher, error) {
	if err := options.Keys.check(); err != nil {
		return nil, err
	}
	p := &Publisher{Options: options, last: map[string]*plan.Published{}, shared: map[digest.Digest]bool{}, resolved: map[string]*resolution{}}
	p.keys.Store(&options.Keys)
	return p, nil
}

// Outcome is what became of one runtime's request.
type Outcome struct {
	Published plan.Published
	Pushed    bool
	// Reason is why a push was needed, empty when none was.
	Reason plan.Reason
	// Problems, Held and Asked are the resolution's, whether or not a push was needed.
	Problems []bundle.Problem
	Held     []bundle.Problem
	Asked    []string
	// SecretsError is why the bundle says about Secrets what the one before said.
	SecretsError error
}

// Publish resolves the request, with what was published last in its Last, and pushes a bundle if one is needed.
func (p *Publisher) Publish(ctx context.Context, runtime plan.Runtime, request resolve.Request, snapshot *catalog.Snapshot) (Outcome, error) {
	if err := trust.CheckRuntimeID(runtime.ID); err != nil {
		return Outcome{}, err
	}
	last, err := p.Last(ctx, runtime.ID)
	if err != nil {
		return Outcome{}, fmt.Errorf("read the last bundle of runtime %s: %w", runtime.ID, err)
	}
	if last != nil {
		request.Last = keepable(p.Root(), last.State)
	}
	if s := request.Settings; p.Root().Locked() && (len(s.Mirrors) > 0 || s.Agent != "") {
		return Outcome{}, fmt.Errorf("publish to runtime %s: the root of trust has release keys, and agents refuse mirrors and an agent's image that a publisher sets", runtime.ID)
	}
	resolved, err := p.resolve(ctx, request, last, snapshot)
	if err != nil {
		return Outcome{}, fmt.Errorf("resolve runtime %s: %w", runtime.ID, err)
	}
	outcome := Outcome{Problems: resolved.result.State.Problems, Held: resolved.result.Held, Asked: resolved.result.Asked}
	if runtime.Sealed, err = seal(runtime, last, resolved.result.Asked); err != nil {
		outcome.SecretsError = err
	}
	keys := p.keys.Load()
	// It is renewed after a third of its life, by a request that is on its way as long as a bundle is.
	if runtime.Certificate, err = keys.certificate(last, runtime, max(p.CertificateValidity, 3*runtime.Validity), p.Now()); err != nil {
		return Outcome{}, err
	}
	predicate, reason := plan.Next(last, resolved.documents, resolved.result.Asked, runtime, keys.Root, max(p.Validity, runtime.Validity), p.Now())
	if reason == "" {
		outcome.Published = *last
		return outcome, nil
	}
	next, err := p.push(ctx, runtime.ID, keys, resolved, predicate, last)
	if err != nil {
		return Outcome{}, fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
	}
	outcome.Published, outcome.Pushed, outcome.Reason = *next, true, reason
	return outcome, nil
}

func (p *Publisher) push(ctx context.Context, runtime string, keys *Keys, resolved *resolution, predicate bundle.Predicate, last *plan.Published) (*plan.Published, error) {
	manifest, err := bundle.Compose(resolved.documents, predicate, keys.Signer)
	if err != nil {
		return nil, err
	}
	if err := p.publishRoots(ctx, keys); err != nil {
		return nil, err
	}
	if err := p.share(ctx, resolved.documents); err != nil {
		return nil, err
	}
	if p.AttachCosign {
		signature, err := bundle.ComposeCosign(manifest, predicate.IssuedAt, keys.Signer)
		if err != nil {
			return nil, err
		}
		if err := store.PushCosign(ctx, p.Place, runtime, signature); err != nil {
			return nil, err
		}
	}
	present := func(d digest.Digest) bool { return last != nil && (d == last.StateDigest || d == last.CatalogDigest) }
	err = store.PushBundle(ctx, p.Place, runtime, resolved.documents, manifest, present)
	if err != nil {
		// What was pushed is unknown now, and what was shared may be gone with the registry's data: ask before the next try.
		p.Forget(runtime)
		p.mu.Lock()
		clear(p.shared)
		p.mu.Unlock()
		return nil, err
	}
	next := &plan.Published{
		Predicate: predicate, Digest: manifest.Descriptor.Digest, State: resolved.result.State,
		StateDigest: resolved.documents.State.Descriptor.Digest, CatalogDigest: resolved.documents.Catalog.Descriptor.Digest,
	}
	p.mu.Lock()
	p.last[runtime] = next
	p.mu.Unlock()
	return next, nil
}

// share makes the documents exist once for all runtimes that get them.
func (p *Publisher) share(ctx context.Context, documents bundle.Documents) error {
	key := documents.State.Descriptor.Digest
	p.mu.Lock()
	done := p.shared[key] && p.shared[documents.Catalog.Descriptor.Digest]
	p.mu.Unlock()
	if done {
		return nil
	}
	_, err, _ := p.sharing.Do(key.String()+documents.Catalog.Descriptor.Digest.String(), func() (any, error) {
		if err := store.ShareDocuments(ctx, p.Place, documents); err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.shared[key], p.shared[documents.Catalog.Descriptor.Digest] = true, true
		return nil, nil
	})
	return err
}

// Forget drops what is remembered of a runtime and of the roots of trust, so that the registry is asked again.
func (p *Publisher) Forget(runtime string) {
	p.rooted.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, runtime)
}

// Last returns the bundle that lies in the registry for a runtime, nil when there is none that a publisher of this fleet signed.
func (p *Publisher) Last(ctx context.Context, runtime string) (*plan.Published, error) {
	p.mu.Lock()
	known := p.last[runtime]
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	keys := p.keys.Load()
	found, err := Read(ctx, p.Place, runtime, keys.Root, keys.Former...)
	if err != nil || found == nil {
		return nil, err
	}
	p.mu.Lock()
	p.last[runtime] = found
	p.mu.Unlock()
	return found, nil
}

func (p *Publisher) resolve(ctx context.Context, request resolve.Request, last *plan.Published, snapshot *catalog.Snapshot) (*resolution, error) {
	request.Labels = snapshot.Relevant(request.Labels)
	contents, fingerprint, err := p.contents(ctx, resolve.Needs(request, snapshot))
	if err != nil {
		return nil, err
	}
	key := requestKey(request, last, snapshot.Revision, fingerprint)
	p.mu.Lock()
	known := p.resolved[key]
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	fresh := &resolution{result: resolve.Resolve(request, snapshot, contents)}
	if fresh.documents, err = bundle.NewDocuments(fresh.result.State, fresh.result.Catalog); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.resolved) >= maxResolved {
		clear(p.resolved)
	}
	p.resolved[key] = fresh
	return fresh, nil
}
