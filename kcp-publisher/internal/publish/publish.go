// Package publish brings one runtime's repository in line with what its Kyma asks for: a request goes in, at most one
// bundle goes out. After a restart it adopts what lies in the registry where that is what the runtime's status
// remembers, so that no bundle is pushed twice and none is skipped. The registry is never a source of content: see
// plan.Adopt.
package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/singleflight"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
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
	// Recheck is how often the registry is asked whether it still holds what was published; 0: whenever anything is
	// published.
	Recheck time.Duration
	// MayPush returns why this process may not push now: another one has the lease. Nil lets it push.
	MayPush func() error
	// Restored is told what of the fleet's own was missing in the registry and is there again; nil for nobody.
	Restored func(ctx context.Context, what string)
	// AttachCosign signs every bundle once more, for `cosign verify`: two more blobs and up to two more manifests per
	// bundle.
	AttachCosign bool
}

// Publisher publishes bundles. It is safe for concurrent use.
type Publisher struct {
	Options // its Keys are those of the start
	keys    atomic.Pointer[Keys]
	// rooted is which version of the root of trust was last seen where agents look for it, nil for none.
	rooted atomic.Pointer[rooted]
	// unfit is why no agent would accept what the keys sign, as it was found last; nil if they would.
	unfit atomic.Pointer[refusal.Error]
	// turning is held while the keys are replaced, whose roots lie in the registry before they are in use.
	turning sync.RWMutex
	sharing singleflight.Group
	// The memos hold what runtimes have in common. What belongs to one runtime is in its Record.
	resolved       *memo.Shared[resolutionKey, *resolution]
	opened         *memo.Memo[documents, openedState]
	changes        *memo.Memo[statePair, *plan.Changes]
	contentsFound  *memo.Memo[contentKey, foundContent]
	contentsNeeded *memo.Memo[resolutionKey, neededContents]

	mu sync.Mutex // guards the fields below
	// shared are the documents that the registry shares among runtimes, and when they were last seen there.
	shared map[digest.Digest]time.Time
	// contentsPruned is when outdated contents were last dropped.
	contentsPruned time.Time
}

type resolution struct {
	result    resolve.Result
	documents bundle.Documents
}

// rooted is a version of the root of trust, and when it was seen.
type rooted struct {
	version int64
	at      time.Time
}

// New returns a Publisher.
func New(options Options) (*Publisher, error) {
	if err := options.Keys.identify(); err != nil {
		return nil, err
	}
	p := &Publisher{
		Options: options, shared: map[digest.Digest]time.Time{},
		resolved: newResolutions(maxResolvedBytes), opened: newOpened(), changes: newChanges(), contentsFound: newContentsFound(), contentsNeeded: newContentsNeeded(),
	}
	p.keys.Store(&options.Keys)
	return p, nil
}

// Outcome is what became of one runtime's request.
type Outcome struct {
	Published plan.Published
	Pushed    bool
	// Reason is why a push was needed, empty when none was.
	Reason plan.Reason
	// Problems, Remarks and Asked are the resolution's, whether or not a push was needed.
	Problems []bundle.Problem
	Remarks  []bundle.Problem
	Asked    []string
	// LeftOut are the features that the bundle does without because the runtime's agent does not understand them.
	LeftOut []bundle.Feature
	// Deviation is what was wrong in the registry, nil when nothing was. Checked says that it was looked at and holds what
	// was published.
	Deviation *plan.Deviation
	Checked   bool
	// Unrecorded says that nothing was pushed, although that is needed, because Published has to be remembered first:
	// write it down and publish again.
	Unrecorded bool
	// SecretsError is why the bundle says about Secrets what the one before said.
	SecretsError error
}

// Publish resolves the request and pushes a bundle if one is needed. What does not resolve keeps what was published
// last, as far as that is known apart from the registry.
func (p *Publisher) Publish(ctx context.Context, record *Record, runtime plan.Runtime, request resolve.Request, snapshot *catalog.Snapshot) (Outcome, error) {
	if err := p.check(runtime, request); err != nil {
		return Outcome{}, err
	}
	for attempt := 1; ; attempt++ {
		outcome, err := p.try(ctx, record, runtime, request, snapshot)
		if !errors.Is(err, errMoved) && !errors.Is(err, errOtherKeys) || attempt == maxAttempts {
			return outcome, err
		}
		record.Recheck()
	}
}

// check returns why nothing may be published for a request.
func (p *Publisher) check(runtime plan.Runtime, request resolve.Request) error {
	if err := trust.CheckRuntimeID(runtime.ID); err != nil {
		return err
	}
	if err := p.fit(p.keys.Load()); err != nil {
		return fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
	}
	if s := request.Settings; p.Root().Locked() && (len(s.Mirrors) > 0 || s.Agent != "") {
		return fmt.Errorf("publish to runtime %s: the root of trust has release keys, and agents refuse mirrors and an agent's image that a publisher sets", runtime.ID)
	}
	return nil
}

// maxAttempts is how often somebody else may push between a look at the registry and a push, or the keys may be
// replaced.
const maxAttempts = 3

// ErrMayNotPush says that another process publishes now.
var ErrMayNotPush = errors.New("not published")

// errMoved says that the tag does not name what it named before.
var errMoved = errors.New("another bundle was pushed at the same time")

// errOtherKeys says that the keys of a bundle were replaced before it was pushed: they may be revoked by now.
var errOtherKeys = errors.New("the keys were replaced at the same time")

// decision is what is to be published to a runtime.
type decision struct {
	keys     *Keys
	adopted  plan.Adopted
	resolved *resolution
	// predicate is that of the next bundle, and reason why it is needed, empty when it is not.
	predicate bundle.Predicate
	reason    plan.Reason
	outcome   Outcome
}

// Rests reports whether a runtime needs no bundle, and there is nothing to say about the one that it has, by what is
// known of it without its report. Nothing is pushed, and false says no more than that the report is needed. The error
// is of the registry.
func (p *Publisher) Rests(ctx context.Context, record *Record, runtime plan.Runtime, request resolve.Request, snapshot *catalog.Snapshot) (bool, error) {
	if p.check(runtime, request) != nil {
		return false, nil
	}
	d, err := p.decide(ctx, record, runtime, request, snapshot)
	if err != nil {
		return false, err
	}
	if d.reason != "" || d.adopted.Kept() == nil || d.adopted.Deviation != nil {
		return false, nil
	}
	// Whoever publishes next does not look at the registry again, and so leaves out what is shared.
	if err := p.keepShared(ctx, d.outcome.Checked, d.resolved.documents); err != nil {
		return false, err
	}
	told := len(d.outcome.Problems) + len(d.outcome.Remarks) + len(d.outcome.LeftOut)
	return told == 0 && !d.adopted.Unrecorded(runtime.Remembered) && d.outcome.SecretsError == nil, nil
}

func (p *Publisher) try(ctx context.Context, record *Record, runtime plan.Runtime, request resolve.Request, snapshot *catalog.Snapshot) (Outcome, error) {
	d, err := p.decide(ctx, record, runtime, request, snapshot)
	if err != nil {
		return Outcome{}, err
	}
	outcome, kept := d.outcome, d.adopted.Kept()
	switch {
	case d.reason == "":
		outcome.Published = *d.adopted.Last
		return outcome, p.keepShared(ctx, outcome.Checked, d.resolved.documents)
	case d.adopted.Unrecorded(runtime.Remembered):
		outcome.Published, outcome.Unrecorded, outcome.Deviation = *kept, true, nil
		return outcome, nil
	}
	if d.adopted.Deviation != nil {
		p.forgetShared() // what was lost with the bundle is unknown
	}
	next, err := p.push(ctx, record, runtime.ID, d.keys, d.resolved, d.predicate, kept)
	if err != nil {
		return Outcome{}, fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
	}
	outcome.Published, outcome.Pushed, outcome.Reason = *next, true, d.reason
	return outcome, nil
}

// decide adopts what a runtime has and resolves its request; nothing is pushed.
func (p *Publisher) decide(ctx context.Context, record *Record, runtime plan.Runtime, request resolve.Request, snapshot *catalog.Snapshot) (decision, error) {
	d := decision{keys: p.keys.Load()}
	adopted, checked, err := p.adopt(ctx, record, runtime, d.keys)
	if err != nil {
		return d, err
	}
	d.adopted = adopted
	kept := adopted.Kept()
	if adopted.Last != nil && kept == nil {
		request.Versions = newest(request.Versions, adopted.Last.Versions)
	}
	request, left := plan.Understood(request)
	if err := request.CheckTakeover(); err != nil {
		return d, fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
	}
	if d.resolved, err = p.resolve(ctx, record, request, kept, snapshot); err != nil {
		return d, fmt.Errorf("resolve runtime %s: %w", runtime.ID, err)
	}
	result := d.resolved.result
	d.outcome = Outcome{LeftOut: slices.Concat(left, result.LeftOut), Problems: result.State.Problems, Remarks: result.Remarks, Asked: result.Asked, Deviation: adopted.Deviation, Checked: checked}
	if runtime.Sealed, err = seal(runtime, kept, result.Asked); err != nil {
		d.outcome.SecretsError = err
	}
	// It is renewed after a third of its life, by a request that is on its way as long as a bundle is. One that lies there
	// proves itself.
	if runtime.Certificate, err = d.keys.certificate(adopted.Last, runtime, max(p.CertificateValidity, 3*runtime.Validity), &record.certificate, p.Now()); err != nil {
		return d, err
	}
	wanted := plan.Wanted{Documents: d.resolved.documents, Asked: result.Asked, Versions: result.Versions, KeepsAll: request.KeepsAll(), Critical: result.State.Critical()}
	d.predicate, d.reason = plan.Next(adopted, wanted, runtime, d.keys.Root, max(p.Validity, runtime.Validity), p.Now())
	return d, nil
}

// newest returns the newer version of each module. Of a bundle of which nothing is kept the versions count all the
// same: they can only hold a module back.
func newest(a, b map[string]string) map[string]string {
	all := maps.Clone(b)
	for module, version := range a {
		if !bundle.Older(version, all[module]) {
			if all == nil {
				all = map[string]string{}
			}
			all[module] = version
		}
	}
	return all
}

func (p *Publisher) push(ctx context.Context, record *Record, runtime string, keys *Keys, resolved *resolution, predicate bundle.Predicate, kept *plan.Published) (*plan.Published, error) {
	manifest, err := bundle.Compose(resolved.documents, predicate, keys.Signer)
	if err != nil {
		return nil, err
	}
	if err := p.publishRoots(ctx, keys); err != nil {
		return nil, err
	}
	if err := p.share(ctx, record, resolved.documents); err != nil {
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
	if p.keys.Load() != keys {
		return nil, errOtherKeys
	}
	if err := p.replace(ctx, record, runtime, resolved.documents, manifest); err != nil {
		// What was pushed is unknown now, and what was shared may be gone with the registry's data: ask before the next try.
		record.Recheck()
		p.forgetShared()
		return nil, err
	}
	next := &plan.Published{
		Predicate: predicate, Digest: manifest.Descriptor.Digest, State: resolved.result.State, Versions: resolved.result.Versions,
		StateBlob: resolved.documents.State.Descriptor, CatalogBlob: resolved.documents.Catalog.Descriptor,
	}
	if kept != nil {
		next.Changes = p.changesBetween(kept, next)
	}
	record.published(next, next.Digest, p.Now())
	return next, nil
}

// replace puts a bundle in the place of the one that was looked at, and of no other.
func (p *Publisher) replace(ctx context.Context, record *Record, runtime string, documents bundle.Documents, manifest bundle.Blob) error {
	repository, err := p.Place.Repository(ctx, bundle.DesiredRepository(runtime))
	if err != nil {
		return err
	}
	there, err := store.Head(ctx, repository, bundle.TagDesired)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if there != record.tag {
		return errMoved
	}
	present := map[digest.Digest]bool{}
	if last := record.last; last != nil {
		for _, blob := range []ocispec.Descriptor{documents.State.Descriptor, documents.Catalog.Descriptor} {
			if blob.Digest != last.StateBlob.Digest && blob.Digest != last.CatalogBlob.Digest {
				continue // it is not there, and is mounted
			}
			if present[blob.Digest], err = store.Has(ctx, repository, blob); err != nil {
				return err
			}
		}
	}
	if p.MayPush != nil {
		if err := p.MayPush(); err != nil {
			return fmt.Errorf("%w: %w", ErrMayNotPush, err)
		}
	}
	return store.PushBundle(ctx, p.Place, runtime, documents, manifest, func(d digest.Digest) bool { return present[d] })
}

func (p *Publisher) resolve(ctx context.Context, record *Record, request resolve.Request, kept *plan.Published, snapshot *catalog.Snapshot) (*resolution, error) {
	request.Labels = snapshot.Relevant(request.Labels)
	in := inputs{Revision: snapshot.Revision}
	if kept != nil {
		in.LastState = kept.StateBlob.Digest
		request.Last = p.keepable(ctx, p.Root(), kept.State)
	}
	in.Request = request
	asked := keyOf(in)
	needed, err := p.needed(ctx, asked, request, snapshot)
	if err != nil {
		return nil, err
	}
	key := asked.with(needed.id)
	if known, found := p.resolved.Find(&record.resolution, key); found {
		return known, nil
	}
	fresh := &resolution{result: resolve.Resolve(request, snapshot, needed.contents)}
	if fresh.documents, err = bundle.NewDocuments(fresh.result.State, fresh.result.Catalog); err != nil {
		return nil, err
	}
	p.resolved.Put(&record.resolution, key, fresh)
	return fresh, nil
}
