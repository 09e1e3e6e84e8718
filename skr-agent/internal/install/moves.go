package install

import (
	"context"
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// An object moves between modules if the new version of the first module omits it and the new version of the second
// module contains it. The first module keeps the object until the second module has set its own annotation owned-by on
// it. The object is never deleted.

// handOverInterval is the first interval between two checks of objects that another module must take over. The interval
// increases to unwrittenInterval while the other module is not installed. If the new version of the other module is not
// requested yet, for example because it waits for its maintenance window, the interval is unwrittenInterval.
const (
	handOverInterval  = time.Second
	unwrittenInterval = time.Minute
)

// wantedObjects returns the objects of the requested version, with its default CR. problem is the reason why the
// content cannot be rendered or installed.
func (pl *planner) wantedObjects(
	ctx context.Context, m *v1beta2.Manifest,
) (wants object.Keys, problem *outcome.Finding, err error) {
	p, problem, err := pl.content(ctx, m, nil)
	if err != nil || problem != nil {
		return nil, problem, err
	}
	wants = object.KeysOf(p.Inventory)
	if p.DefaultCR != nil {
		wants[guard.KeyOf(p.DefaultCR)] = struct{}{}
	}
	return wants, nil, nil
}

// newOwner is a module that takes over an object.
type newOwner struct {
	// name is the module's name in messages.
	name string
	// isUnwritten is true if the cluster does not request the module's new version yet. isMissing is true if the content
	// of the new version is missing.
	isUnwritten, isMissing bool
}

// newOwners finds modules that take over objects that this module does not need anymore. A module whose content is
// refused takes over nothing, so that it cannot delay the removal of this module. A module whose content is missing can
// take over every object.
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
		wants, isInstalled, isMissing := object.KeysOf(other.Status.Synced), planning.Installed(other), false
		if r, ok := pl.defaultCR(other); ok {
			wants[object.KeyOf(r)] = struct{}{}
		}
		if !isInstalled {
			now, problem, err := pl.wantedObjects(ctx, other)
			if err != nil {
				return fmt.Errorf("render module %s to find the objects that it takes over: %w", other.Module(), err)
			}
			wants, isMissing = now, problem != nil && problem.Reason == v1beta2.ReasonContentMissing
		}
		for _, r := range dropped {
			k := object.KeyOf(r)
			// Do not keep a webhook or policy for a module that is not installed yet. Its deletion loses no data, and
			// the module creates it again.
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

// unwrittenManifests returns the Manifests of the latest bundle that the runtime's Manifests do not match yet.
func (pl *planner) unwrittenManifests() []v1beta2.Manifest {
	if pl.unwritten == nil {
		return nil
	}
	return pl.unwritten()
}

// releaseFilter returns a function that reports whether another Manifest does not need an object anymore, because its
// content does not contain the object or the Manifest is being removed.
func (pl *planner) releaseFilter(ctx context.Context) func(other *v1beta2.Manifest, k guard.Key) (bool, error) {
	rendered := map[string]object.Keys{}
	return func(other *v1beta2.Manifest, k guard.Key) (bool, error) {
		if !planning.IsActive(pl.records, other) {
			return !other.DeletionTimestamp.IsZero() && pl.records.HasRemoval(other) && !pl.records.IsUnmanaged(other),
				nil
		}
		wants, done := rendered[other.Name]
		if !done {
			now, problem, err := pl.wantedObjects(ctx, other)
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

// handover is the result of the search for new owners of objects that a module does not need anymore.
type handover struct {
	// deletable contains the objects that the module can delete now.
	deletable []v1beta2.Resource
	// waitReason is the reason to wait if other modules must take over some of the objects first, or "". recheckAfter
	// is the delay until the next check.
	waitReason   string
	recheckAfter time.Duration
	// isScheduled is true if the other modules only wait for their upgrade, for example for a maintenance window.
	isScheduled bool
}

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
