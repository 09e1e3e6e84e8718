// Package publish updates a runtime's repository in the registry so that it matches the runtime's Kyma. Each reconcile
// pushes at most one bundle. After a restart, the publisher continues with the bundle in the Kyma's status. It does not
// trust the registry: plan.Adopt decides whether a bundle in the registry can be used.
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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/takeover/phase"
)

// Options configures a Publisher.
type Options struct {
	Place      store.Store
	Keys       Keys
	Components *component.Reader
	// Requires reports whether a component must be signed. If it is nil, no component must be signed.
	Requires func(component string) bool
	// Validity is the validity period of a bundle. The publisher renews a bundle after a third of this period.
	Validity time.Duration
	// CertificateValidity is the validity period of an agent certificate. The publisher renews a certificate after a
	// third of this period.
	CertificateValidity time.Duration
	Now                 func() time.Time
	// Recheck is the time after which the publisher checks again whether the registry contains the published bundle. If
	// it is 0, each reconcile checks this.
	Recheck time.Duration
	// MayPush returns an error if this process does not hold the Lease. If it is nil, pushes are always allowed.
	MayPush func() error
	// Restored is called after the publisher has pushed missing shared content again. what describes the content.
	// Restored can be nil.
	Restored func(ctx context.Context, what string)
	// Removals decides about module removals that the runtime did not request. If it is nil, all removals are allowed.
	Removals func(ctx context.Context, removing plan.Removing, snapshot *catalog.Snapshot) (plan.Verdict, error)
}

// Publisher publishes bundles. It is safe for concurrent use.
type Publisher struct {
	// Options.Keys contains only the initial keys. The field keys contains the current ones.
	Options
	keys atomic.Pointer[Keys]
	// publishedRoot is the latest version of the root of trust that the registry is known to contain, or nil.
	publishedRoot atomic.Pointer[publishedRoot]
	// unfit is the reason why agents would refuse signatures of the current keys, or nil.
	unfit atomic.Pointer[refusal.Error]
	// keysLock is locked for writing while the keys are being replaced.
	keysLock sync.RWMutex
	sharing  singleflight.Group
	// These caches contain data that several runtimes share. The data of a single runtime is in its Record.
	resolved       *memo.Shared[resolutionKey, *resolution]
	opened         *memo.Memo[documents, openedState]
	changes        *memo.Memo[statePair, *plan.Changes]
	contentsFound  *memo.Memo[contentKey, foundContent]
	contentsNeeded *memo.Memo[resolutionKey, neededContents]

	mu sync.Mutex
	// shared maps each shared document in the registry to the time at which it was last found there.
	shared map[digest.Digest]time.Time
	// contentsPruned is the time at which outdated contents were last removed from the caches.
	contentsPruned time.Time
}

type resolution struct {
	result    resolve.Result
	documents bundle.Documents
}

type publishedRoot struct {
	version int64
	at      time.Time
}

// New returns a Publisher. It returns an error if it cannot read the public keys of options.Keys.
func New(options Options) (*Publisher, error) {
	if err := options.Keys.identify(); err != nil {
		return nil, err
	}
	p := &Publisher{
		Options: options, shared: map[digest.Digest]time.Time{},
		resolved: newResolutions(maxResolvedBytes), opened: newOpened(), changes: newChanges(),
		contentsFound: newContentsFound(), contentsNeeded: newContentsNeeded(),
	}
	p.keys.Store(&options.Keys)
	return p, nil
}

// Outcome is the result of a call of Publish for one runtime.
type Outcome struct {
	Published plan.Published
	Pushed    bool
	// Reason is the reason for the new bundle. It is empty if no new bundle was necessary.
	Reason plan.Reason
	// Problems, Remarks and Asked are copied from the resolve.Result of the request.
	Problems []bundle.Problem
	Remarks  []bundle.Problem
	Asked    []string
	// LeftOut lists the features that the bundle does not use because the agent does not support them.
	LeftOut []bundle.Feature
	// Deviation is the difference between the registry and the published bundle, or nil. Checked is true if the
	// registry was read and contains the published bundle.
	Deviation *plan.Deviation
	Checked   bool
	// If Unrecorded is true, the caller must write Published to the Kyma's status and then call Publish again.
	Unrecorded bool
	// SecretsError is the reason why the new Secrets could not be encrypted, or nil. The bundle then contains the
	// Secrets of the previous bundle.
	SecretsError error
	// Removals contains the decisions about the new removals in the bundle. Kept is true if the Kyma is deleted but its
	// runtime keeps the modules until an operator approves their removal.
	Removals plan.Verdict
	Kept     bool
}

// Publish resolves the request and pushes a new bundle if necessary. A module that cannot be resolved stays at its last
// published version.
func (p *Publisher) Publish(
	ctx context.Context, record *Record, runtime plan.Runtime, request resolve.Request, snapshot *catalog.Snapshot,
) (Outcome, error) {
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

func (p *Publisher) check(runtime plan.Runtime, request resolve.Request) error {
	if err := trust.CheckRuntimeID(runtime.ID); err != nil {
		return err
	}
	if err := p.fit(p.keys.Load()); err != nil {
		return fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
	}
	if s := request.Settings; p.Root().HasReleaseKeys() && (len(s.Mirrors) > 0 || s.Agent != "") {
		return fmt.Errorf(
			"publish to runtime %s: the root of trust has release keys, so agents refuse mirrors and agent images "+
				"from the publisher", runtime.ID)
	}
	return nil
}

// maxAttempts limits the attempts to publish a bundle. Another attempt is necessary if another process pushes a bundle
// at the same time, or if the keys are replaced.
const maxAttempts = 3

// ErrMayNotPush means that MayPush returned an error, because this process does not hold the Lease.
var ErrMayNotPush = errors.New("not published")

// errMoved means that the tag of the runtime's bundle changed after it was read.
var errMoved = errors.New("another bundle was pushed at the same time")

// errOtherKeys means that the keys were replaced before the push. The bundle is not pushed, because the old keys may be
// revoked.
var errOtherKeys = errors.New("the keys were replaced at the same time")

type decision struct {
	keys     *Keys
	adopted  plan.Adopted
	resolved *resolution
	// predicate is the signed content of the next bundle. reason is empty if no new bundle is necessary.
	predicate bundle.Predicate
	reason    plan.Reason
	outcome   Outcome
}

// IsSettled reports whether a runtime needs no new bundle and has no problems. It does not read the runtime's report or
// push a bundle. An error means that the registry could not be read.
func (p *Publisher) IsSettled(
	ctx context.Context, record *Record, runtime plan.Runtime, request resolve.Request, snapshot *catalog.Snapshot,
) (bool, error) {
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
	// Check the shared documents now, because the next call of Publish does not read the registry again.
	if err := p.keepShared(ctx, d.outcome.Checked, d.resolved.documents); err != nil {
		return false, err
	}
	notes := len(d.outcome.Problems) + len(d.outcome.Remarks) + len(d.outcome.LeftOut) + len(d.outcome.Removals.Held)
	return notes == 0 && !d.adopted.Unrecorded(runtime.Remembered) && d.outcome.SecretsError == nil, nil
}

func (p *Publisher) try(
	ctx context.Context, record *Record, runtime plan.Runtime, request resolve.Request, snapshot *catalog.Snapshot,
) (Outcome, error) {
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
		p.forgetShared()
	}
	next, err := p.push(ctx, record, runtime.ID, d.keys, d.resolved, d.predicate, kept)
	if err != nil {
		return Outcome{}, fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
	}
	outcome.Published, outcome.Pushed, outcome.Reason = *next, true, d.reason
	return outcome, nil
}

// decide resolves a request and decides whether a new bundle is necessary. It pushes nothing. If module removals must
// wait for an approval, it resolves the request again so that the bundle keeps these modules.
func (p *Publisher) decide(
	ctx context.Context, record *Record, runtime plan.Runtime, request resolve.Request, snapshot *catalog.Snapshot,
) (decision, error) {
	d := decision{keys: p.keys.Load()}
	adopted, checked, err := p.adopt(ctx, record, runtime, d.keys)
	if err != nil {
		return d, err
	}
	d.adopted = adopted
	if err := adopted.CheckOwner(runtime); err != nil {
		return d, err
	}
	if applicable := adopted.Applicable(); applicable != nil {
		request.Versions = newest(request.Versions,
			phase.Floors(request.Takeover, &applicable.State, applicable.Versions))
	}
	request, left := plan.SupportedRequest(request)
	if err := request.CheckTakeover(); err != nil {
		return d, fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
	}
	var verdict plan.Verdict
	for {
		if err := p.next(ctx, record, &d, runtime, request, snapshot); err != nil {
			return d, err
		}
		removing := adopted.Removing(d.predicate, runtime)
		removing.Modules = slices.DeleteFunc(removing.Modules, func(m string) bool {
			return slices.Contains(verdict.Going, m)
		})
		if len(removing.Modules) == 0 || p.Removals == nil {
			break
		}
		more, err := p.Removals(ctx, removing, snapshot)
		if err != nil {
			return d, fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
		}
		verdict.Add(more)
		if len(more.Held) == 0 {
			break
		}
		if _, kept := verdict.Held[""]; kept && runtime.Changing {
			if adopted.Last == nil {
				return d,
					fmt.Errorf(
						"publish to runtime %s: the Kyma is being deleted, and removing its modules needs approval",
						runtime.ID)
			}
			// The catalog is changing, so do not publish a new bundle.
			d.reason = ""
			break
		}
		request, runtime = keeping(request, runtime, verdict)
	}
	d.outcome.Checked, d.outcome.LeftOut, d.outcome.Deviation = checked, slices.Concat(left, d.outcome.LeftOut),
		adopted.Deviation
	_, d.outcome.Kept = verdict.Held[""]
	d.outcome.Removals = verdict
	return d, nil
}

// keeping changes a request so that the bundle keeps the modules whose removal must wait for an approval.
func keeping(request resolve.Request, runtime plan.Runtime, verdict plan.Verdict) (resolve.Request, plan.Runtime) {
	request.Staying, request.Settling = nil, len(verdict.Waiting()) == 0
	for _, module := range slices.Sorted(maps.Keys(verdict.Held)) {
		if module == "" {
			request.Deleting, runtime.Deleting = false, false
			continue
		}
		request.Staying = append(request.Staying, module)
	}
	return request, runtime
}

func (p *Publisher) next(
	ctx context.Context, record *Record, d *decision, runtime plan.Runtime, request resolve.Request,
	snapshot *catalog.Snapshot,
) (err error) {
	kept := d.adopted.Kept()
	if d.resolved, err = p.resolve(ctx, record, request, kept, snapshot); err != nil {
		return fmt.Errorf("resolve runtime %s: %w", runtime.ID, err)
	}
	result := d.resolved.result
	d.outcome = Outcome{
		LeftOut: result.Unsupported, Problems: result.State.Problems, Remarks: result.Remarks, Asked: result.Asked,
	}
	if runtime.Sealed, err = seal(runtime, kept, result.Asked); err != nil {
		d.outcome.SecretsError = err
	}
	// The agent requests a renewal after a third of the certificate's validity. The certificate in the last bundle can
	// be reused even if the bundle comes from the registry, because the certificate's signature is verified.
	if runtime.Certificate, err = d.keys.certificate(d.adopted.Last, runtime,
		max(p.CertificateValidity, 3*runtime.Validity), &record.certificate, p.Now()); err != nil {
		return err
	}
	wanted := plan.Wanted{Documents: d.resolved.documents, Asked: result.Asked, Versions: result.Versions,
		KeepsAll: request.KeepsAll(), Critical: result.State.Critical(),
		Agent: result.State.Settings.Agent, Values: request.AllValues().Only(result.State.UsedValues())}
	d.predicate, d.reason = plan.Next(d.adopted, wanted, runtime, d.keys.Root, max(p.Validity, runtime.Validity),
		p.Now())
	return nil
}

// newest merges two maps from modules to versions. If both contain a module, it uses the newer version.
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

func (p *Publisher) push(
	ctx context.Context, record *Record, runtime string, keys *Keys, resolved *resolution, predicate bundle.Predicate,
	kept *plan.Published,
) (*plan.Published, error) {
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
	if p.keys.Load() != keys {
		return nil, errOtherKeys
	}
	if err := p.replace(ctx, record, runtime, resolved.documents, manifest); err != nil {
		// The failed push may have changed the tag, so the next attempt must read the registry again.
		record.Recheck()
		p.forgetShared()
		return nil, err
	}
	next := &plan.Published{
		Predicate: predicate, Digest: manifest.Descriptor.Digest, State: resolved.result.State,
		Versions:  resolved.result.Versions,
		StateBlob: resolved.documents.State.Descriptor, CatalogBlob: resolved.documents.Catalog.Descriptor,
	}
	if kept != nil {
		next.Changes = p.changesBetween(kept, next)
	}
	record.published(next, next.Digest, p.Now())
	return next, nil
}

// replace pushes the bundle. It returns errMoved if the tag has changed since it was read.
func (p *Publisher) replace(
	ctx context.Context, record *Record, runtime string, documents bundle.Documents, manifest bundle.Blob,
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
		return errMoved
	}
	present := map[digest.Digest]bool{}
	if last := record.last; last != nil {
		for _, blob := range []ocispec.Descriptor{documents.State.Descriptor, documents.Catalog.Descriptor} {
			if blob.Digest != last.StateBlob.Digest && blob.Digest != last.CatalogBlob.Digest {
				// This blob is new in the runtime's repository. PushBundle mounts it from the shared repository.
				continue
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
	return store.PushBundle(ctx, p.Place, runtime, documents, manifest, func(d digest.Digest) bool {
		return present[d]
	})
}

func (p *Publisher) resolve(
	ctx context.Context, record *Record, request resolve.Request, kept *plan.Published, snapshot *catalog.Snapshot,
) (*resolution, error) {
	request.DefinedValues = snapshot.DefinedValues(request.AllValues())
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
