package install

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
)

// An object moves between two modules when the new version of one has it and the new version of the other does not.
// The module that gains the object takes it over by writing its own mark. The module that loses it leaves it alone
// until then. Neither deletes it, in whichever order the two Manifests are reconciled.

// handOverInterval is the interval between two checks of objects that another module takes over.
const handOverInterval = time.Second

// wanted returns the objects in the current content of a Manifest, installed or not. It returns false if the content
// cannot be rendered.
func (i *Installer) wanted(ctx context.Context, m *v1beta2.Manifest) (keys, bool, error) {
	content, problem, err := i.rendered(ctx, m)
	if err != nil || problem != nil {
		return nil, false, err
	}
	p, err := makePlan(content.objects, content.defaultCR, nil, i.owner(m), i.scope)
	if err != nil {
		if passing(err) {
			return nil, false, err
		}
		return nil, false, nil
	}
	return keysOf(p.inventory), true, nil
}

// isActive reports whether the agent installs a Manifest's content.
func isActive(m *v1beta2.Manifest) bool {
	return m.DeletionTimestamp.IsZero() && m.Annotations[v1beta2.AnnotationUnmanaged] != v1beta2.True &&
		m.Labels[v1beta2.LabelSkipReconciliation] != v1beta2.True
}

// takers returns the modules that request objects that a Manifest no longer has.
func (i *Installer) takers(
	ctx context.Context, m *v1beta2.Manifest, dropped []v1beta2.Resource,
) (map[key]string, error) {
	if len(dropped) == 0 {
		return nil, nil
	}
	others, err := i.others(ctx, m)
	if err != nil {
		return nil, err
	}
	takers := map[key]string{}
	for _, other := range others {
		if !isActive(other) {
			continue
		}
		wants := keysOf(other.Status.Synced)
		if !installed(other) {
			now, known, err := i.wanted(ctx, other)
			if err != nil {
				return nil, fmt.Errorf("render module %s, which may take over objects: %w", other.Module(), err)
			}
			if known {
				wants = now
			}
		}
		for _, r := range dropped {
			if wants.has(keyOf(r)) {
				takers[keyOf(r)] = other.Module()
			}
		}
	}
	return takers, nil
}

// givesUp returns a test for objects in the inventory of another Manifest that it no longer requests: its content does
// not have them, or the Manifest is being removed.
func (i *Installer) givesUp(ctx context.Context) func(other *v1beta2.Manifest, k key) (bool, error) {
	rendered := map[string]keys{}
	return func(other *v1beta2.Manifest, k key) (bool, error) {
		if !isActive(other) {
			return !other.DeletionTimestamp.IsZero() && other.IsRemoved() &&
				other.Annotations[v1beta2.AnnotationUnmanaged] != v1beta2.True, nil
		}
		wants, done := rendered[other.Name]
		if !done {
			now, known, err := i.wanted(ctx, other)
			if err != nil {
				return false, fmt.Errorf("render module %s, which has %s: %w", other.Module(), k, err)
			}
			if wants = now; !known {
				wants = keysOf(other.Status.Synced)
			}
			rendered[other.Name] = wants
		}
		return !wants.has(k), nil
	}
}

// others returns all Manifests but one. They are the cache's own objects, which are only read.
func (i *Installer) others(ctx context.Context, m *v1beta2.Manifest) ([]*v1beta2.Manifest, error) {
	var all v1beta2.ManifestList
	if err := i.cached.List(ctx, &all, client.InNamespace(i.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
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

// among returns the resources of a list that are in a set.
func among(resources []v1beta2.Resource, wanted keys) []v1beta2.Resource {
	return slices.DeleteFunc(slices.Clone(resources), func(r v1beta2.Resource) bool { return !wanted.has(keyOf(r)) })
}

// handOver splits objects that a Manifest drops: those that it may delete, and a text about those that other modules
// take over. While the agent is still writing the Manifests of a bundle, a module whose Manifest does not exist yet can
// take over any of them.
func (i *Installer) handOver(
	ctx context.Context, m *v1beta2.Manifest, dropped []v1beta2.Resource,
) (mine []v1beta2.Resource, waiting string, err error) {
	if len(dropped) == 0 {
		return nil, "", nil
	}
	if i.isIncomplete() {
		return nil, "waiting until the agent has written all modules of the bundle, which may take over " +
				keyOf(dropped[0]).String(),
			nil
	}
	takers, err := i.takers(ctx, m, dropped)
	if err != nil {
		return nil, "", err
	}
	deletes := i.owner(m).MayDelete(m.Annotations[v1beta2.AnnotationInherited] != "")
	var moving []string
	for _, r := range dropped {
		module, wanted := takers[keyOf(r)]
		if !wanted {
			mine = append(mine, r)
			continue
		}
		live, err := i.actor(m).owned(ctx, r)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", keyOf(r), err)
		}
		if live == nil || !deletes(live) {
			mine = append(mine, r) // the other module has it: nothing is deleted
			continue
		}
		moving = append(moving, fmt.Sprintf("%s by module %s", keyOf(r), module))
	}
	if len(moving) > 0 {
		waiting = "waiting for the takeover of " + firstFew(moving)
	}
	return mine, waiting, nil
}

// takesOver reports whether a plan takes over an object from the Manifest whose mark it has.
func (p *plan) takesOver(k key, mark string, by guard.Owner) bool {
	from := p.takes[k]
	return from != "" && from == mark && from != by.Mark
}

// isAbandoned reports whether an object has the mark of another Manifest that has dropped it and left it in place, such
// as an object with the annotation helm.sh/resource-policy: keep.
func isAbandoned(k key, live *metav1.PartialObjectMetadata, others []*v1beta2.Manifest) bool {
	for _, other := range others {
		if live.Annotations[v1beta2.AnnotationOwnedBy] != other.Namespace+"/"+other.Name {
			continue
		}
		isDefaultCR := other.Spec.Resource != nil && other.Spec.Resource.GetKind() == k.Kind &&
			other.Spec.Resource.GetName() == k.Name
		return isActive(other) && installed(other) && !isDefaultCR && !keysOf(other.Status.Synced).has(k)
	}
	return false
}
