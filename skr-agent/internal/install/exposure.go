package install

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// exposes returns a problem if the plan's labels for the agent's namespace would let an installed webhook or policy
// intercept the agent's requests.
func (c *checker) exposes(ctx context.Context, m *v1beta2.Manifest, p *planning.Plan) (*outcome.Finding, error) {
	for _, o := range p.Shared {
		if o.GetName() != c.planner.namespace {
			continue
		}
		live, err := c.planner.accounts.Of(m).Metadata(ctx, object.ResourceOf(o))
		if err != nil {
			return nil, err
		}
		before, after := labels.Set{}, labels.Set{}
		if live != nil {
			before, after = live.Labels, guard.LabelsExceptManager(live, c.fieldManager+"/"+m.ModuleLabel())
		}
		after = labels.Merge(after, o.GetLabels())
		if labels.Equals(before, after) {
			if live != nil && len(o.GetLabels()) == 0 {
				p.Unlabeled = guard.KeyOf(o)
			}
			continue
		}
		found, err := installedInterceptors(ctx, c.cluster)
		if err != nil {
			return nil, err
		}
		if rule := guard.CheckNamespaceLabels(before, after, c.planner.namespace, found); rule != "" {
			return &outcome.Finding{Reason: v1beta2.ReasonProtected, Message: fmt.Sprintf("%s: %s", guard.KeyOf(o), rule)}, nil
		}
	}
	return nil, nil
}

// installedInterceptors lists all webhooks and policies. It uses the agent's own permissions.
func installedInterceptors(ctx context.Context, cluster client.Client) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, kind := range guard.InterceptorKinds() {
		mapping, err := cluster.RESTMapper().RESTMapping(schema.GroupKind{Group: guard.AdmissionGroup, Kind: kind})
		if meta.IsNoMatchError(err) {
			continue // not served by this Kubernetes version
		}
		if err != nil {
			return nil, err
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind + "List"))
		if err := cluster.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list webhooks and policies: %w", err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}
