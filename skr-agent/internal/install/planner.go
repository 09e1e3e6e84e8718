package install

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/rendering"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// planner reads a module's content and plans the changes to the cluster. It reads Manifests from the cache and content
// from the content store. It does not write.
type planner struct {
	accounts account.Set
	cached   client.Reader // lists Manifests from the manager's cache
	records  record.Store
	plans    *planning.Cache
	renderer rendering.Renderer
	// namespace is the Manifests' namespace and the default namespace for objects.
	namespace string
	// incomplete reports whether the agent is still writing a bundle's Manifests. It can be nil.
	incomplete func() bool
	// unwritten returns the latest bundle's Manifests that the runtime's Manifests do not match yet. It can be nil.
	unwritten func() []v1beta2.Manifest
	claimed   *claimsCache
}

// plan renders a Manifest's content and returns the plan. The finding is a problem that the module causes. All errors
// are temporary.
func (pl *planner) plan(ctx context.Context, m *v1beta2.Manifest) (planning.Plan, *outcome.Finding, error) {
	p, problem, err := pl.content(ctx, m, m.Status.Synced, nil)
	if err != nil || problem != nil {
		return planning.Plan{}, problem, err
	}
	problem, err = pl.checkClaims(ctx, m, &p)
	return p, problem, err
}

// step is the next step for a Manifest.
type step int

const (
	stepCheck   step = iota // check whether the objects are ready
	stepCorrect             // apply the changed objects, which corrects drift
	stepApply               // compare and apply all objects
)

// planFor returns the plan for the next step: all objects for stepApply, otherwise the changed objects. It uses the
// cached plan if possible.
func (pl *planner) planFor(
	ctx context.Context, m *v1beta2.Manifest, todo step, changed object.Keys,
) (planning.Plan, *outcome.Finding, error) {
	if todo == stepApply {
		p, problem, err := pl.plan(ctx, m)
		if p.Resources.OK {
			pl.claimed.keep(m, pl.claimsInput(m), p.Claims(m.Module()), false)
		}
		return p, problem, err
	}
	if p, ok := pl.plans.Changed(client.ObjectKeyFromObject(m), planning.Input(m, pl.owner(m)), changed); ok {
		if err := pl.yield(ctx, m, &p, nil, nil); err != nil {
			return planning.Plan{}, nil, err
		}
		problem, err := pl.checkClaims(ctx, m, &p)
		return p, problem, err
	}
	p, problem, err := pl.plan(ctx, m)
	p.KeepOnly(changed)
	return p, problem, err
}

// checkClaims returns a conflict if another Manifest owns an object in the plan. It also records the objects that
// another Manifest owns but does not need anymore, so that this module can take them over.
func (pl *planner) checkClaims(ctx context.Context, m *v1beta2.Manifest, p *planning.Plan) (*outcome.Finding, error) {
	if err := pl.yieldTaken(ctx, m, p); err != nil {
		return nil, err
	}
	others, err := pl.otherManifests(ctx, m)
	if err != nil {
		return nil, err
	}
	takes, conflict, err := planning.ClaimedByOther(m, *p, others, pl.defaultCR, pl.releaseFilter(ctx, m))
	if err != nil || conflict == "" {
		p.Takes = takes
		return nil, err
	}
	return &outcome.Finding{Reason: v1beta2.ReasonConflict, Message: conflict}, nil
}

// yieldTaken removes objects that other modules have taken over from the plan of a module that is being removed. The
// module's content and inventory still contain these objects.
func (pl *planner) yieldTaken(ctx context.Context, m *v1beta2.Manifest, p *planning.Plan) error {
	if m.DeletionTimestamp.IsZero() {
		return nil
	}
	by, before, taken := pl.owner(m), object.KeysOf(m.Status.Synced), map[guard.Key]string{}
	for _, o := range slices.Concat(p.Stages[:]...) {
		k, r := guard.KeyOf(o), object.ResourceOf(o)
		if !before.Has(k) {
			continue
		}
		live, err := pl.accounts.Of(m).Metadata(ctx, r)
		switch {
		case account.IsUnreadable(r, err): // applying the object returns the same error
		case err != nil:
			return fmt.Errorf("%s: %w", k, err)
		case live != nil && by.BelongsToOther(live):
			taken[k] = live.Labels[v1beta2.LabelModuleName]
		}
	}
	p.Yield(taken, nil)
	return nil
}

// mayDelete returns a function that reports whether the agent can delete an object in a Manifest's inventory.
func (pl *planner) mayDelete(m *v1beta2.Manifest) func(*metav1.PartialObjectMetadata) bool {
	return pl.owner(m).DeletionFilter(pl.records.Read(m).Inherited != "")
}

// An object moves between modules if the first module's new version omits it and the second module's new version
// contains it. The first module keeps the object until the second module has set its own annotation owned-by on it. The
// object is never deleted.

// handOverInterval is the first interval between checks for objects that another module must take over. The interval
// increases up to unwrittenInterval while the other module is being installed. It is always unwrittenInterval while the
// other module's Manifest in the cluster does not request the new version yet, for example because that module waits
// for its maintenance window.
const (
	handOverInterval  = time.Second
	unwrittenInterval = time.Minute
)

// newOwner is a module that takes over an object.
type newOwner struct {
	// name is the module's name in messages.
	name string
	// isUnwritten is true if the module's Manifest in the cluster does not request the new version yet. isMissing is
	// true if the new version's content is missing.
	isUnwritten, isMissing bool
}

// newOwners finds modules that take over objects that this module does not need anymore. A module with refused content
// does not take over objects, so that it cannot delay this module's removal. A module with missing content may take
// over any object.
func (pl *planner) newOwners(
	ctx context.Context, m *v1beta2.Manifest, dropped []v1beta2.Resource,
) (map[guard.Key]newOwner, error) {
	if len(dropped) == 0 {
		return nil, nil
	}
	others, err := pl.otherManifests(ctx, m)
	if err != nil {
		return nil, err
	}
	takers := map[guard.Key]newOwner{}
	add := func(other *v1beta2.Manifest, isUnwritten bool) error {
		isInstalled := planning.Installed(other)
		wants, isMissing, err := pl.takenObjects(ctx, m, other, isInstalled, dropped)
		if err != nil {
			return err
		}
		for _, r := range dropped {
			k := object.KeyOf(r)
			// Do not keep a webhook or policy for a module that is not installed yet. Its deletion loses no data, and
			// the other module creates it again.
			if _, known := takers[k]; known || !isInstalled && object.Intercepts(k.GroupKind()) {
				continue
			}
			switch {
			case wants.Has(k):
				takers[k] = newOwner{"module " + other.Module(), isUnwritten, false}
			case isMissing:
				takers[k] = newOwner{"module " + other.Module() + ", whose content is missing", isUnwritten, true}
			}
		}
		return nil
	}
	for _, other := range others {
		if !other.DeletionTimestamp.IsZero() || pl.records.IsUnmanaged(other) {
			continue
		}
		if err := add(other, !planning.IsActive(pl.records, other)); err != nil {
			return nil, err
		}
	}
	for _, other := range pl.unwrittenManifests() {
		if other.Name == m.Name {
			continue
		}
		if err := add(&other, true); err != nil {
			return nil, err
		}
	}
	return takers, nil
}

// unwrittenManifests returns the latest bundle's Manifests that the runtime's Manifests do not match yet.
func (pl *planner) unwrittenManifests() []v1beta2.Manifest {
	if pl.unwritten == nil {
		return nil
	}
	return pl.unwritten()
}

// releaseFilter returns a function that reports whether another Manifest does not need an object anymore, because its
// content does not contain the object or the Manifest is being removed. m is the Manifest that the caller reconciles.
func (pl *planner) releaseFilter(
	ctx context.Context, m *v1beta2.Manifest,
) func(other *v1beta2.Manifest, k guard.Key) (bool, error) {
	rendered := map[string]object.Keys{}
	return func(other *v1beta2.Manifest, k guard.Key) (bool, error) {
		if !planning.IsActive(pl.records, other) {
			return !other.DeletionTimestamp.IsZero() && pl.records.HasRemoval(other) && !pl.records.IsUnmanaged(other),
				nil
		}
		wants, done := rendered[other.Name]
		if !done {
			now, problem, err := pl.wantedObjects(ctx, other, m)
			if err != nil {
				return false, fmt.Errorf("render module %s, the owner of %s: %w", other.Module(), k, err)
			}
			if wants = now; problem != nil {
				wants = pl.correctedObjects(other)
			}
			rendered[other.Name] = wants
		}
		return !wants.Has(k), nil
	}
}

func (pl *planner) isIncomplete() bool { return pl.incomplete != nil && pl.incomplete() }

// handOver finds the objects in dropped that this module can delete now.
func (pl *planner) handOver(
	ctx context.Context, m *v1beta2.Manifest, dropped []v1beta2.Resource,
) (handover, error) {
	if len(dropped) == 0 {
		return handover{}, nil
	}
	if pl.isIncomplete() {
		return handover{recheckAfter: handOverInterval, waitReason: "waiting until all Manifests of the " +
			"bundle are written, because one of them may take over " + object.KeyOf(dropped[0]).String()}, nil
	}
	takers, err := pl.newOwners(ctx, m, dropped)
	if err != nil {
		return handover{}, err
	}
	found, deletes, owner := handover{recheckAfter: unwrittenInterval, isScheduled: true}, pl.mayDelete(m), pl.owner(m)
	defaultCR, _ := pl.defaultCR(m)
	var moving []string
	for _, r := range dropped {
		taker, wanted := takers[object.KeyOf(r)]
		if !wanted {
			found.deletable = append(found.deletable, r)
			continue
		}
		live, err := pl.accounts.Of(m).Metadata(ctx, r)
		if err != nil {
			return handover{}, fmt.Errorf("%s: %w", object.KeyOf(r), err)
		}
		if live == nil || !deletes(live) && (object.KeyOf(r) != object.KeyOf(defaultCR) || !owner.OwnsDefaultCR(live)) {
			// If the object has another owner, deleteObjects does not delete it.
			found.deletable = append(found.deletable, r)
			continue
		}
		if !taker.isUnwritten {
			found.recheckAfter = handOverInterval
		}
		found.isScheduled = found.isScheduled && taker.isUnwritten && !taker.isMissing
		moving = append(moving, fmt.Sprintf("%s by %s", object.KeyOf(r), taker.name))
	}
	if len(moving) > 0 {
		found.waitReason = "waiting for the takeover of " + excerpt.FirstFew(moving)
	}
	return found, nil
}
