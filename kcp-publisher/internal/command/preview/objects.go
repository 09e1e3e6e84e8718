// Package preview reads the objects of a control plane, and forecasts how changed objects affect its fleet.
package preview

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

// Objects contains the control plane objects that determine the runtimes' bundles.
type Objects struct {
	Kymas     map[string]*v1beta2.Kyma
	Templates map[string]v1beta2.ModuleTemplate
	Metas     map[string]v1beta2.ModuleReleaseMeta
	Policies  map[string]v1alpha1.RolloutPolicy
	Rollouts  []v1alpha1.Rollout
	// Restricted lists the modules in --restricted-default-modules. Such a module is available only to Kymas that match
	// the kymaSelector in its ModuleReleaseMeta.
	Restricted []string
	// Watched selects the Kymas that the publisher reconciles.
	Watched shard.Share
}

func newControlled() Objects {
	return Objects{
		Kymas: map[string]*v1beta2.Kyma{}, Templates: map[string]v1beta2.ModuleTemplate{},
		Metas: map[string]v1beta2.ModuleReleaseMeta{}, Policies: map[string]v1alpha1.RolloutPolicy{},
	}
}

// Read reads the objects in a namespace.
func Read(ctx context.Context, api client.Reader, namespace string) (Objects, error) {
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
		c.Kymas[kymas.Items[i].Name] = &kymas.Items[i]
	}
	for _, t := range templates.Items {
		c.Templates[t.Name] = t
	}
	for _, m := range metas.Items {
		c.Metas[m.Name] = m
	}
	for _, p := range policies.Items {
		c.Policies[p.Name] = p
	}
	c.Rollouts = rollouts.Items
	return c, nil
}

// AfterCommit returns the control plane's objects as they would be after a Git commit: with the objects from the
// commit, and without the objects in prune.
func (c Objects) AfterCommit(
	objects source.Objects, prune []follow.Key, namespace string, now time.Time,
) Objects {
	next := newControlled()
	next.Rollouts, next.Restricted, next.Watched = c.Rollouts, c.Restricted, c.Watched
	for name, kyma := range c.Kymas {
		next.Kymas[name] = kyma.DeepCopy()
	}
	maps.Copy(next.Templates, c.Templates)
	maps.Copy(next.Metas, c.Metas)
	maps.Copy(next.Policies, c.Policies)
	for _, key := range prune {
		switch kyma := next.Kymas[key.Name]; key.Kind.Kind {
		case "Kyma":
			if kyma != nil && kyma.DeletionTimestamp.IsZero() {
				kyma.DeletionTimestamp = new(metav1.NewTime(now))
			}
		case "ModuleTemplate":
			delete(next.Templates, key.Name)
		case "ModuleReleaseMeta":
			delete(next.Metas, key.Name)
		case "RolloutPolicy":
			delete(next.Policies, key.Name)
		}
	}
	for i := range objects.Kymas {
		wanted := objects.Kymas[i].DeepCopy()
		wanted.Namespace, wanted.CreationTimestamp = namespace, metav1.NewTime(now)
		if have := next.Kymas[wanted.Name]; have != nil {
			wanted.CreationTimestamp = have.CreationTimestamp
			wanted.Labels, wanted.Annotations = mergeMaps(have.Labels, wanted.Labels),
				mergeMaps(have.Annotations, wanted.Annotations)
			wanted.Status, wanted.DeletionTimestamp = have.Status, have.DeletionTimestamp
		}
		next.Kymas[wanted.Name] = wanted
	}
	for _, t := range objects.Templates {
		t.Namespace = namespace
		next.Templates[t.Name] = t
	}
	for _, m := range objects.Metas {
		m.Namespace = namespace
		next.Metas[m.Name] = m
	}
	for _, p := range objects.Policies {
		p.Namespace = namespace
		next.Policies[p.Name] = p
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

// Forecast returns the fleet with the module versions that the publisher would install in each runtime.
func (c Objects) Forecast(rules plan.Rules, now time.Time) (forecast.Fleet, error) {
	snapshot, err := catalog.New(slices.Collect(maps.Values(c.Templates)), slices.Collect(maps.Values(c.Metas)),
		c.Restricted...)
	if err != nil {
		return forecast.Fleet{}, err
	}
	var all []v1beta2.Kyma
	kymas, others := map[string]*v1beta2.Kyma{}, map[string]*v1beta2.Kyma{}
	for _, name := range slices.Sorted(maps.Keys(c.Kymas)) {
		if kyma := c.Kymas[name]; c.Watched.Contains(kyma.Labels, plan.ClaimedRuntimeID(kyma)) {
			all, kymas[name] = append(all, *kyma), kyma
		} else {
			others[name] = kyma
		}
	}
	preview := rules.Preview(plan.Fleet{Kymas: all, Catalog: snapshot,
		Policies: slices.Collect(maps.Values(c.Policies)), Rollouts: c.Rollouts}, now)
	rejections := rollout.ListRejected(slices.Collect(maps.Values(c.Metas)), c.Rollouts)
	slices.SortFunc(rejections, func(a, b rollout.Rejection) int {
		return cmp.Or(cmp.Compare(a.Rollout.Name, b.Rollout.Name), cmp.Compare(a.Channel, b.Channel))
	})
	return forecast.Fleet{Kymas: kymas, Others: others, Catalog: snapshot, Request: preview.Request,
		NewRollouts: preview.Round.Create, Rejections: rejections}, nil
}

// ListKymas returns all Kymas.
func (c Objects) ListKymas() []v1beta2.Kyma {
	kymas := make([]v1beta2.Kyma, 0, len(c.Kymas))
	for _, kyma := range c.Kymas {
		kymas = append(kymas, *kyma)
	}
	return kymas
}
