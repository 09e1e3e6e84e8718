package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/forecast"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/shard"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/follow"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
)

type controlledObjects struct {
	kymas     map[string]*v1beta2.Kyma
	templates map[string]v1beta2.ModuleTemplate
	metas     map[string]v1beta2.ModuleReleaseMeta
	policies  map[string]v1alpha1.RolloutPolicy
	rollouts  []v1alpha1.Rollout
	// restricted lists the modules of --restricted-modules. Only Kymas that match the kymaSelector of such a module's
	// ModuleReleaseMeta can use the module.
	restricted []string
	// watched selects the Kymas that the publisher reconciles.
	watched shard.Share
}

func newControlled() controlledObjects {
	return controlledObjects{
		kymas: map[string]*v1beta2.Kyma{}, templates: map[string]v1beta2.ModuleTemplate{},
		metas: map[string]v1beta2.ModuleReleaseMeta{}, policies: map[string]v1alpha1.RolloutPolicy{},
	}
}

func readFleet(ctx context.Context, api client.Reader, namespace string) (controlledObjects, error) {
	c := newControlled()
	var kymas v1beta2.KymaList
	var templates v1beta2.ModuleTemplateList
	var metas v1beta2.ModuleReleaseMetaList
	var policies v1alpha1.RolloutPolicyList
	var rollouts v1alpha1.RolloutList
	for _, list := range []client.ObjectList{&kymas, &templates, &metas, &policies, &rollouts} {
		if err := api.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return c, fmt.Errorf("read the control plane: %w", err)
		}
	}
	for i := range kymas.Items {
		c.kymas[kymas.Items[i].Name] = &kymas.Items[i]
	}
	for _, t := range templates.Items {
		c.templates[t.Name] = t
	}
	for _, m := range metas.Items {
		c.metas[m.Name] = m
	}
	for _, p := range policies.Items {
		c.policies[p.Name] = p
	}
	c.rollouts = rollouts.Items
	return c, nil
}

// afterCommit returns the objects of the control plane as they would be after a Git commit: with the objects of the
// commit, and without the objects in prune.
func (c controlledObjects) afterCommit(
	objects source.Objects, prune []follow.Key, namespace string, now time.Time,
) controlledObjects {
	next := newControlled()
	next.rollouts, next.restricted, next.watched = c.rollouts, c.restricted, c.watched
	for name, kyma := range c.kymas {
		next.kymas[name] = kyma.DeepCopy()
	}
	maps.Copy(next.templates, c.templates)
	maps.Copy(next.metas, c.metas)
	maps.Copy(next.policies, c.policies)
	for _, key := range prune {
		switch kyma := next.kymas[key.Name]; key.Kind.Kind {
		case "Kyma":
			if kyma != nil && kyma.DeletionTimestamp.IsZero() {
				kyma.DeletionTimestamp = new(metav1.NewTime(now))
			}
		case "ModuleTemplate":
			delete(next.templates, key.Name)
		case "ModuleReleaseMeta":
			delete(next.metas, key.Name)
		case "RolloutPolicy":
			delete(next.policies, key.Name)
		}
	}
	for i := range objects.Kymas {
		wanted := objects.Kymas[i].DeepCopy()
		wanted.Namespace, wanted.CreationTimestamp = namespace, metav1.NewTime(now)
		if have := next.kymas[wanted.Name]; have != nil {
			wanted.CreationTimestamp = have.CreationTimestamp
			wanted.Labels, wanted.Annotations = mergeMaps(have.Labels, wanted.Labels),
				mergeMaps(have.Annotations, wanted.Annotations)
			wanted.Status, wanted.DeletionTimestamp = have.Status, have.DeletionTimestamp
		}
		next.kymas[wanted.Name] = wanted
	}
	for _, t := range objects.Templates {
		t.Namespace = namespace
		next.templates[t.Name] = t
	}
	for _, m := range objects.Metas {
		m.Namespace = namespace
		next.metas[m.Name] = m
	}
	for _, p := range objects.Policies {
		p.Namespace = namespace
		next.policies[p.Name] = p
	}
	return next
}

// mergeMaps returns the entries of both maps. As in server-side apply, applied values take precedence over live ones.
func mergeMaps(live, applied map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, live)
	maps.Copy(all, applied)
	return all
}

// previewFleet returns the fleet with the module versions that the publisher would install in each runtime.
func (c controlledObjects) previewFleet(rules plan.Rules, now time.Time) (forecast.Fleet, error) {
	snapshot, err := catalog.New(slices.Collect(maps.Values(c.templates)), slices.Collect(maps.Values(c.metas)),
		c.restricted...)
	if err != nil {
		return forecast.Fleet{}, err
	}
	var all []v1beta2.Kyma
	kymas := map[string]*v1beta2.Kyma{}
	for _, name := range slices.Sorted(maps.Keys(c.kymas)) {
		if kyma := c.kymas[name]; c.watched.Contains(kyma.Labels, plan.ClaimedRuntimeID(kyma)) {
			all, kymas[name] = append(all, *kyma), kyma
		}
	}
	preview := rules.Preview(plan.Fleet{Kymas: all, Catalog: snapshot,
		Policies: slices.Collect(maps.Values(c.policies)), Rollouts: c.rollouts}, now)
	rejections := rollout.ListRejected(slices.Collect(maps.Values(c.metas)), c.rollouts)
	slices.SortFunc(rejections, func(a, b *v1alpha1.Rollout) int { return cmp.Compare(a.Name, b.Name) })
	return forecast.Fleet{Kymas: kymas, Catalog: snapshot, Request: preview.Request, NewRollouts: preview.Round.Create,
		Rejections: rejections}, nil
}

func (c controlledObjects) listKymas() []v1beta2.Kyma {
	kymas := make([]v1beta2.Kyma, 0, len(c.kymas))
	for _, kyma := range c.kymas {
		kymas = append(kymas, *kyma)
	}
	return kymas
}
