package install

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
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
func (i *Installer) wanted(ctx context.Context, m *v1beta2.Manifest) (object.Keys, bool, error) {
	content, problem, err := i.renderer.Module(ctx, m, i.actor(m).Capabilities)
	if err != nil || problem != nil {
		return nil, false, err
	}
	p, err := planning.Make(content.Objects, content.DefaultCR, nil, i.owner(m), i.actors[""].Scope)
	if err != nil {
		if account.IsTemporary(err) {
			return nil, false, err
		}
		return nil, false, nil
	}
	if guard.Check(p.All(), i.Namespace) != nil {
		return nil, false, nil
	}
	return object.KeysOf(p.Inventory), true, nil
}

// newOwners finds modules that take over objects that this module does not need anymore. The result contains the name
// of the new module for each such object. A module whose content is refused takes over nothing, so that it cannot delay
// the removal of this module.
func (i *Installer) newOwners(
	ctx context.Context, m *v1beta2.Manifest, dropped []v1beta2.Resource,
) (map[guard.Key]string, error) {
	if len(dropped) == 0 {
		return nil, nil
	}
	others, err := i.others(ctx, m)
	if err != nil {
		return nil, err
	}
	takers := map[guard.Key]string{}
	for _, other := range others {
		if !planning.IsActive(other) {
			continue
		}
		wants, complete := object.KeysOf(other.Status.Synced), planning.Installed(other)
		if !complete {
			p, problem, err := i.plan(ctx, other)
			if err != nil {
				return nil, fmt.Errorf("render module %s, which can take over objects: %w", other.Module(), err)
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
func (i *Installer) releases(ctx context.Context) func(other *v1beta2.Manifest, k guard.Key) (bool, error) {
	rendered := map[string]object.Keys{}
	return func(other *v1beta2.Manifest, k guard.Key) (bool, error) {
		if !planning.IsActive(other) {
			return !other.DeletionTimestamp.IsZero() && i.records.IsRemoved(other) &&
				other.Annotations[v1beta2.AnnotationUnmanaged] != v1beta2.True, nil
		}
		wants, done := rendered[other.Name]
		if !done {
			now, known, err := i.wanted(ctx, other)
			if err != nil {
				return false, fmt.Errorf("render module %s, which owns %s: %w", other.Module(), k, err)
			}
			if wants = now; !known {
				wants = object.KeysOf(other.Status.Synced)
			}
			rendered[other.Name] = wants
		}
		return !wants.Has(k), nil
	}
}

// others returns all other Manifests from the cache. Callers must not modify them.
func (i *Installer) others(ctx context.Context, m *v1beta2.Manifest) ([]*v1beta2.Manifest, error) {
	var all v1beta2.ManifestList
	if err := i.cached.List(ctx, &all, client.InNamespace(i.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Manifests: %w", err)
	}
	var others []*v1beta2.Manifest
	for n := range all.Items {
		if other := &all.Items[n]; other.Name != m.Name && other.UID != m.UID {
			others = append(others, other)
		}
	}
	return others, nil
}

func (i *Installer) isIncomplete() bool { return i.Incomplete != nil && i.Incomplete() }

// handOver returns the objects in dropped that this module can delete now. waiting is the reason to wait if other
// modules must take over some of the objects first.
func (i *Installer) handOver(
	ctx context.Context, m *v1beta2.Manifest, dropped []v1beta2.Resource,
) (mine []v1beta2.Resource, waiting string, err error) {
	if len(dropped) == 0 {
		return nil, "", nil
	}
	if i.isIncomplete() {
		return nil, "waiting until all Manifests of the bundle are written, because one of them may take over " +
				object.KeyOf(dropped[0]).String(),
			nil
	}
	takers, err := i.newOwners(ctx, m, dropped)
	if err != nil {
		return nil, "", err
	}
	deletes := i.mayDelete(m)
	var moving []string
	for _, r := range dropped {
		module, wanted := takers[object.KeyOf(r)]
		if !wanted {
			mine = append(mine, r)
			continue
		}
		live, err := i.actor(m).Metadata(ctx, r)
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
