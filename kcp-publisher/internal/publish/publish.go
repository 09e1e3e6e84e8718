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
	// RequiresSignature reports whether a component must be signed. If it is nil, unsigned components are allowed.
	RequiresSignature func(component string) bool
	// Validity is the validity period of a bundle. The publisher renews a bundle after a third of this period.
	Validity time.Duration
	// CertificateValidity is the validity period of an agent certificate. The publisher renews a certificate after a
	// third of this period.
	CertificateValidity time.Duration
	Now                 func() time.Time
	// RecheckInterval is the time after which the publisher checks again whether the registry contains the published
	// bundle. If it is 0, the publisher checks this in each reconcile.
	RecheckInterval time.Duration
	// MayPush returns an error if this process does not hold the Lease. If it is nil, pushes are always allowed.
	MayPush func() error
	// OnRestored is called after the publisher has pushed missing shared content again. description identifies the
	// content. OnRestored can be nil.
	OnRestored func(ctx context.Context, description string)
	// DecideRemovals decides which module removals are allowed without an operator's approval. If it is nil, all
	// removals are allowed.
	DecideRemovals func(ctx context.Context, removing plan.NewRemovals, snapshot *catalog.Snapshot) (plan.RemovalDecision,
		error)
}

// Publisher publishes bundles. It is safe for concurrent use.
type Publisher struct {
	// Options contains only the initial keys. The field keys contains the current ones.
	Options
	keys atomic.Pointer[Keys]
	// publishedRoot contains the latest version of the root of trust that this process has published or found in the
	// registry, and the time of this check. It is nil before the first check.
	publishedRoot atomic.Pointer[publishedRoot]
	// unfitReason is the reason why agents would refuse signatures with the current keys, or nil.
	unfitReason atomic.Pointer[refusal.Error]
	// keysLock is locked for writing by ReplaceKeys and for reading by checkNewest.
	keysLock sync.RWMutex
	uploads  singleflight.Group
	// These caches contain data that several runtimes share. A single runtime's data is in its Record.
	resolved       *memo.Shared[resolutionKey, *resolution]
	opened         *memo.Memo[documentsKey, decodedState]
	changes        *memo.Memo[statePair, *plan.Changes]
	releases       *memo.Memo[releaseKey, bool]
	contentsFound  *memo.Memo[contentKey, cachedContent]
	contentsNeeded *memo.Memo[resolutionKey, cachedContents]

	mu sync.Mutex
	// sharedSince maps the digest of each shared document to the time at which the document was last found in the
	// registry or uploaded.
	sharedSince map[digest.Digest]time.Time
	// contentsPruned is when outdated content was last removed from the caches.
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

// New returns a Publisher. It returns an error if it cannot read the public keys in options.Keys.
func New(options Options) (*Publisher, error) {
	if err := options.Keys.setThumbprints(); err != nil {
		return nil, err
	}
	p := &Publisher{
		Options: options, sharedSince: map[digest.Digest]time.Time{},
		resolved: newResolutions(maxResolvedBytes), opened: newOpenedCache(), changes: newChanges(), releases: newReleases(),
		contentsFound: newContentsFound(), contentsNeeded: newContentsNeeded(),
	}
	p.keys.Store(&options.Keys)
	return p, nil
}

// Outcome is Publish's result for one runtime.
type Outcome struct {
	Published plan.PublishedBundle
	IsPushed  bool
	// Reason is the reason for the new bundle. It is empty if no new bundle was necessary.
	Reason plan.Reason
	// Problems, Remarks and RequestedNames are copied from the request's resolve.Result.
	Problems       []bundle.Problem
	Remarks        []bundle.Problem
	RequestedNames []string
	// OmittedFeatures lists the features that the bundle does not use because the agent does not support them.
	OmittedFeatures []bundle.Feature
	// Deviation is the difference between the registry and the published bundle, or nil. IsChecked is true if the
	// registry was read and contains the published bundle.
	Deviation *plan.Deviation
	IsChecked bool
	// If IsUnrecorded is true, the caller must write Published to the Kyma's status and then call Publish again.
	IsUnrecorded bool
	// SecretsError is the reason why the new Secrets could not be encrypted, or nil. The bundle then contains the
	// previous bundle's Secrets.
	SecretsError error
	// SealedRemovals lists the Secrets that the bundle removes, as NAMESPACE/NAME.
	SealedRemovals []string
	// Removals contains the decision about the modules that the bundle removes for the first time. KeepsDeleted is
	// true if a user has deleted the Kyma, but the bundle keeps the modules until an operator approves their removal.
	Removals     plan.RemovalDecision
	KeepsDeleted bool
}

// Input contains the facts from which a runtime's bundle is computed.
type Input struct {
	Runtime plan.Runtime
	Request resolve.Request
	Catalog *catalog.Snapshot
	// IsCurrent reports whether the Request and the Catalog are still based on the current decisions. The Publisher
	// calls it directly before a push. If it is nil, they are always current.
	IsCurrent func() bool
}

// Publish resolves a runtime's module request and pushes a new bundle if necessary. A module that cannot be resolved
// keeps its last published version. If the error is ErrOutdatedDecision, the caller must compute the input again.
func (p *Publisher) Publish(ctx context.Context, record *Record, in Input) (Outcome, error) {
	if err := p.checkRequest(in.Runtime, in.Request); err != nil {
		return Outcome{}, err
	}
	for attempt := 1; ; attempt++ {
		outcome, err := p.tryPublish(ctx, record, in)
		if !errors.Is(err, errTagChanged) && !errors.Is(err, errKeysReplaced) || attempt == maxAttempts {
			return outcome, err
		}
		record.RequestCheck()
	}
}

func (p *Publisher) checkRequest(runtime plan.Runtime, request resolve.Request) error {
	if err := trust.CheckRuntimeID(runtime.ID); err != nil {
		return err
	}
	if err := p.checkFit(p.keys.Load()); err != nil {
		return fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
	}
	if err := p.checkSettings(p.Root(), request.Settings); err != nil {
		return fmt.Errorf("publish to runtime %s: agents would refuse %w", runtime.ID, err)
	}
	return nil
}

type decision struct {
	keys     *Keys
	adopted  plan.Adoption
	resolved *resolution
	// predicate is the content to sign for the next bundle. reason is empty if no new bundle is necessary.
	predicate bundle.Predicate
	reason    plan.Reason
	outcome   Outcome
	// isChecked is true if the registry was read and contains the published bundle. omitted lists the requested
	// features that the agent does not support.
	isChecked bool
	omitted   []bundle.Feature
}

// IsSettled reports whether the runtime's published bundle is up to date and has no problems. It does not read the
// runtime's report and does not push a bundle. An error means that the registry could not be read.
func (p *Publisher) IsSettled(ctx context.Context, record *Record, in Input) (bool, error) {
	if p.checkRequest(in.Runtime, in.Request) != nil {
		return false, nil
	}
	d, err := p.decideBundle(ctx, record, in)
	if err != nil {
		return false, err
	}
	if d.reason != "" || d.adopted.KeptBundle() == nil || d.adopted.Deviation != nil {
		return false, nil
	}
	// Check the shared documents now, because the next call to Publish does not read the registry again.
	if err := p.restoreShared(ctx, d.outcome.IsChecked, d.resolved.documents); err != nil {
		return false, err
	}
	notes := len(d.outcome.Problems) + len(d.outcome.Remarks) + len(d.outcome.OmittedFeatures) +
		len(d.outcome.Removals.HeldReasons)
	return notes == 0 && !d.adopted.IsUnrecorded(in.Runtime.RecordedBundle) && d.outcome.SecretsError == nil, nil
}

func (p *Publisher) tryPublish(ctx context.Context, record *Record, in Input) (Outcome, error) {
	d, err := p.decideBundle(ctx, record, in)
	if err != nil {
		return Outcome{}, err
	}
	outcome, kept := d.outcome, d.adopted.KeptBundle()
	switch {
	case d.reason == "":
		outcome.Published = *d.adopted.LastBundle
		return outcome, p.restoreShared(ctx, outcome.IsChecked, d.resolved.documents)
	case d.adopted.IsUnrecorded(in.Runtime.RecordedBundle):
		outcome.Published, outcome.IsUnrecorded, outcome.Deviation = *kept, true, nil
		return outcome, nil
	}
	if d.adopted.Deviation != nil {
		p.resetShared()
	}
	next, err := p.pushBundle(ctx, record, in.Runtime.ID, d.keys, d.resolved, d.predicate, kept, in.IsCurrent)
	if err != nil {
		return Outcome{}, fmt.Errorf("publish to runtime %s: %w", in.Runtime.ID, err)
	}
	outcome.Published, outcome.IsPushed, outcome.Reason = *next, true, d.reason
	return outcome, nil
}

// beginDecision finds the bundle on which the next bundle is based, and adapts the request to it.
func (p *Publisher) beginDecision(
	ctx context.Context, record *Record, in Input,
) (d decision, request resolve.Request, runtime plan.Runtime, err error) {
	d.keys = p.keys.Load()
	if d.adopted, d.isChecked, err = p.adoptBundle(ctx, record, in.Runtime, d.keys); err != nil {
		return d, request, runtime, err
	}
	if err := d.adopted.CheckOwner(in.Runtime); err != nil {
		return d, request, runtime, err
	}
	request, runtime = d.adopted.WithoutAdditions(in.Request, in.Runtime)
	if applicable := d.adopted.Applicable(); applicable != nil {
		request.Versions = newestVersions(request.Versions,
			phase.MinimumVersions(request.Takeover, &applicable.State, applicable.Versions))
	}
	request = request.WithoutOutdatedRollbacks(runtime.PublishedVersions)
	request, d.omitted = plan.SupportedRequest(request)
	if err := request.CheckTakeover(); err != nil {
		return d, request, runtime, fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
	}
	return d, request, runtime, nil
}

// decideBundle resolves a runtime's module request and decides whether a new bundle is necessary. It does not push the
// bundle. If module removals must wait for an operator's approval, it resolves the request again, so that the bundle
// keeps these modules.
func (p *Publisher) decideBundle(ctx context.Context, record *Record, in Input) (decision, error) {
	d, request, runtime, err := p.beginDecision(ctx, record, in)
	if err != nil {
		return d, err
	}
	var verdict plan.RemovalDecision
	for {
		if err := p.setPredicate(ctx, record, &d, runtime, request, in.Catalog); err != nil {
			return d, err
		}
		removing := d.adopted.Removing(d.predicate, runtime)
		removing.Modules = slices.DeleteFunc(removing.Modules, func(m string) bool {
			return slices.Contains(verdict.RemovedModules, m)
		})
		more, err := p.decideRemovals(ctx, removing, in.Catalog)
		if err != nil {
			return d, fmt.Errorf("publish to runtime %s: %w", runtime.ID, err)
		}
		more.WaitForRollouts(request.RemovalGates)
		verdict.Add(more)
		if len(more.HeldReasons)+len(more.Waiting) == 0 {
			break
		}
		if _, kept := verdict.HeldReasons[""]; kept && runtime.IsChanging {
			if d.adopted.LastBundle == nil {
				return d,
					fmt.Errorf(
						"publish to runtime %s: the Kyma is being deleted, and removing its modules needs approval",
						runtime.ID)
			}
			// The catalog is changing, so do not publish a new bundle.
			d.reason = ""
			break
		}
		request, runtime = withHeldModules(request, runtime, verdict)
	}
	d.outcome.IsChecked, d.outcome.OmittedFeatures, d.outcome.Deviation = d.isChecked,
		slices.Concat(d.omitted, d.outcome.OmittedFeatures),
		d.adopted.Deviation
	_, d.outcome.KeepsDeleted = verdict.HeldReasons[""]
	for _, m := range d.resolved.result.State.Manifests {
		if request.RemovalGates[m.Module].ReplacedVersion != "" {
			verdict.Restored = append(verdict.Restored, m.Module)
		}
	}
	d.outcome.Removals = verdict
	return d, nil
}

func (p *Publisher) setPredicate(
	ctx context.Context, record *Record, d *decision, runtime plan.Runtime, request resolve.Request,
	snapshot *catalog.Snapshot,
) (err error) {
	kept := d.adopted.KeptBundle()
	if d.resolved, err = p.resolveRequest(ctx, record, request, kept, snapshot); err != nil {
		return fmt.Errorf("resolve runtime %s: %w", runtime.ID, err)
	}
	result := d.resolved.result
	d.outcome = Outcome{
		OmittedFeatures: result.Unsupported, Problems: result.State.Problems, Remarks: result.Remarks,
		RequestedNames: result.RequestedNames,
	}
	runtime.Sealed, d.outcome.SealedRemovals, d.outcome.SecretsError = sealSecrets(runtime, kept, result.RequestedNames)
	// The agent requests a renewal after a third of the certificate's validity. Until then, the next bundle contains
	// the same certificate. The certificate can be trusted even if the last bundle was read from the registry,
	// because nextCertificate verifies its signature.
	if runtime.Certificate, err = d.keys.nextCertificate(d.adopted.LastBundle, runtime,
		max(p.CertificateValidity, 2*runtime.Validity), &record.certificate, p.Now()); err != nil {
		return err
	}
	wanted := plan.ResolvedBundle{Documents: d.resolved.documents, RequestedNames: result.RequestedNames,
		Versions:        result.Versions,
		KeepsAllModules: request.KeepsAllModules(), CriticalFeatures: result.State.CriticalFeatures(),
		AgentImage: result.State.Settings.Agent, Values: request.AllValues().SelectNames(result.State.UsedValues())}
	d.predicate, d.reason = plan.NextBundle(d.adopted, wanted, runtime, d.keys.Root, max(p.Validity, runtime.Validity),
		p.Now())
	return nil
}

// newestVersions merges two maps from modules to versions. If both contain a module, it uses the newer version.
func newestVersions(a, b map[string]string) map[string]string {
	all := maps.Clone(b)
	for module, version := range a {
		if !bundle.IsOlder(version, all[module]) {
			if all == nil {
				all = map[string]string{}
			}
			all[module] = version
		}
	}
	return all
}

func (p *Publisher) resolveRequest(
	ctx context.Context, record *Record, request resolve.Request, kept *plan.PublishedBundle, snapshot *catalog.Snapshot,
) (*resolution, error) {
	request.DefinedValues, request.InvalidValues = snapshot.DefinedValues(request.AllValues())
	request.Labels = snapshot.RelevantLabels(request.Labels)
	in := resolutionInput{Revision: snapshot.Revision}
	if kept != nil {
		in.LastState = kept.StateBlob.Digest
		request.LastState = p.acceptedState(ctx, p.Root(), kept.State)
	}
	in.Request = request
	asked := hashInput(in)
	needed, err := p.neededContents(ctx, asked, request, snapshot)
	if err != nil {
		return nil, err
	}
	key := asked.withContents(needed.id)
	if known, found := p.resolved.Share(&record.resolution, key); found {
		return known, nil
	}
	fresh := &resolution{result: resolve.Resolve(request, snapshot, needed.contents)}
	if fresh.documents, err = bundle.NewDocuments(fresh.result.State, fresh.result.Catalog); err != nil {
		return nil, err
	}
	p.resolved.Put(&record.resolution, key, fresh)
	return fresh, nil
}
