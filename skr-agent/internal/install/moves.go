package install

import (
	"context"
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// An object moves between modules if the new version of the first module omits it and the new version of the second
// module contains it. The first module keeps the object until the second module has set its own annotation owned-by on
// it. The object is never deleted.

// handOverInterval is the interval between two checks of objects that another module must take over.
const handOverInterval = time.Second

// wanted returns the objects in the content of the requested version. It returns false if the content cannot be
// rendered or installed.
func (pl *planner) wanted(ctx context.Context, m *v1beta2.Manifest) (object.Keys, bool, error) {
	content, problem, err := pl.renderer.Module(ctx, m, pl.accounts.Of(m).Capabilities)
	if err != nil || problem != nil {
		return nil, false, err
	}
	p, err := planning.Make(content.Objects, content.DefaultCR, nil, pl.owner(m), pl.accounts.Own().Scope)
	if err != nil {
		if account.IsTemporary(err) {
			return nil, false, err
		}
		return nil, false, nil
	}
	if guard.Check(p.All(), pl.namespace) != nil {
		return nil, false, nil
	}
	return object.KeysOf(p.Inventory), true, nil
}

// newOwners finds modules that take over objects that this module does not need anymore. The result contains the name
// of the new module for each such object. A module whose content is refused takes over nothing, so that it cannot delay
// the removal of this module.
func (pl *planner) newOwners(
	ctx context.Context, m *v1beta2.Manifest, dropped []v1beta2.Resource,
) (map[guard.Key]string, error) {
	if len(dropped) == 0 {
		return nil, nil
	}
	others, err := pl.others(ctx, m)
	if err != nil {
		return nil, err
	}
	takers := map[guard.Key]string{}
	for _, other := range others {
		if !planning.IsActive(pl.records, other) {
			continue
		}
		wants, complete := object.KeysOf(other.Status.Synced), planning.Installed(other)
		if !complete {
			p, problem, err := pl.plan(ctx, other)
			if err != nil {
				return nil, fmt.Errorf("render module %s to find the objects that it takes over: %w", other.Module(), err)
			}
			// A conflict with another module can still end, so the module can take over the objects later.
			if problem == nil || problem.Reason == v1beta2.ReasonConflict {
				wants = object.KeysOf(p.Inventory)
			}
		}
		for _, r := range dropped {
			k := object.KeyOf(r)
			// Do not keep a webhook or policy for a module that is not installed yet. Its deletion loses no data, and
			// the module creates it again.
			if wants.Has(k) && (complete || !object.Intercepts(k.GroupKind())) {
				takers[k] = other.Module()
			}
		}
	}
	return takers, nil
}

// releases returns a function that reports whether another Manifest does not need an object anymore, because its
// content does not contain the object or the Manifest is being removed.
func (pl *planner) releases(ctx context.Context) func(other *v1beta2.Manifest, k guard.Key) (bool, error) {
	rendered := map[string]object.Keys{}
	return func(other *v1beta2.Manifest, k guard.Key) (bool, error) {
		if !planning.IsActive(pl.records, other) {
			return !other.DeletionTimestamp.IsZero() && pl.records.HasRemoval(other) && !pl.records.IsUnmanaged(other),
				nil
		}
		wants, done := rendered[other.Name]
		if !done {
			now, known, err := pl.wanted(ctx, other)
			if err != nil {
				return false, fmt.Errorf("render module %s, the owner of %s: %w", other.Module(), k, err)
			}
			if wants = now; !known {
				wants = object.KeysOf(other.Status.Synced)
			}
			rendered[other.Name] = wants
		}
		return !wants.Has(k), nil
	}
}

func (pl *planner) isIncomplete() bool { return pl.incomplete != nil && pl.incomplete() }

// handOver returns the objects in dropped that this module can delete now. waiting is the reason to wait if other
// modules must take over some of the objects first.
func (pl *planner) handOver(
	ctx context.Context, m *v1beta2.Manifest, dropped []v1beta2.Resource,
) (mine []v1beta2.Resource, waiting string, err error) {
	if len(dropped) == 0 {
		return nil, "", nil
	}
	if pl.isIncomplete() {
		return nil, "waiting until all Manifests of the bundle are written, because one of them may take over " +
				object.KeyOf(dropped[0]).String(),
			nil
	}
	takers, err := pl.newOwners(ctx, m, dropped)
	if err != nil {
		return nil, "", err
	}
	deletes := pl.mayDelete(m)
	var moving []string
	for _, r := range dropped {
		module, wanted := takers[object.KeyOf(r)]
		if !wanted {
			mine = append(mine, r)
			continue
		}
		live, err := pl.accounts.Of(m).Metadata(ctx, r)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", object.KeyOf(r), err)
		}
		if live == nil || !deletes(live) {
			// If the object has another owner, deleteObjects does not delete it.
			mine = append(mine, r)
			continue
		}
		moving = append(moving, fmt.Sprintf("%s by module %s", object.KeyOf(r), module))
	}
	if len(moving) > 0 {
		waiting = "waiting for the takeover of " + excerpt.FirstFew(moving)
	}
	return mine, waiting, nil
}
