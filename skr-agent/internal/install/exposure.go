package install

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// interceptorKinds are what may come between a request and the API server.
var interceptorKinds = []string{
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
}

// exposes finds labels that the plan would put on the agent's namespace and by which a webhook or policy that is installed, by whomever,
// would come to see the agent's requests. It is asked of the cluster only when labels change.
func (i *Installer) exposes(ctx context.Context, m *v1beta2.Manifest, p plan) (*finding, error) {
	for _, o := range p.shared {
		if o.GetName() != i.Namespace {
			continue
		}
		live, err := i.actor(m).owned(ctx, resourceOf(o))
		if err != nil {
			return nil, err
		}
		before := labels.Set{}
		if live != nil {
			before = live.Labels
		}
		after := labels.Merge(before, o.GetLabels())
		if labels.Equals(before, after) {
			continue
		}
		found, err := i.interceptors(ctx)
		if err != nil {
			return nil, err
		}
		if rule := opens(before, after, i.Namespace, found); rule != "" {
			return &finding{reason: v1beta2.ReasonProtected, message: fmt.Sprintf("%s: %s", keyOfObject(o), rule)}, nil
		}
	}
	return nil, nil
}

// interceptors lists all that there are, with the agent's own rights: this is about the agent, whatever the module may see.
func (i *Installer) interceptors(ctx context.Context) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, kind := range interceptorKinds {
		mapping, err := i.cluster.RESTMapper().RESTMapping(schema.GroupKind{Group: admissionGroup, Kind: kind})
		if meta.IsNoMatchError(err) {
			continue // of a later Kubernetes
		}
		if err != nil {
			return nil, err
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind + "List"))
		if err := i.cluster.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list what intercepts requests: %w", err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}
