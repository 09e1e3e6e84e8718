package install

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// namespaceOwner is the field manager for labels on the agent's namespace.
const namespaceOwner = "kyma-pull-namespace"

// LabelNamespace sets labels on the agent's namespace and removes labels that it set earlier. It does not change a
// label if an installed webhook or policy could then intercept the agent's requests. In this case, it returns an error
// that wraps guard.ErrExposed.
func LabelNamespace(ctx context.Context, cluster client.Client, home string, want map[string]string) error {
	live, err := liveNamespace(ctx, cluster, home)
	if err != nil || live == nil {
		return err
	}
	left := guard.LabelsExceptManager(live, namespaceOwner)
	if labels.Equals(live.Labels, labels.Merge(left, want)) {
		return nil
	}
	installed, err := installedInterceptors(ctx, cluster)
	if err != nil {
		return err
	}
	pods, err := agentPods(ctx, cluster, home)
	if err != nil {
		return err
	}
	safe, refused := guard.SafeLabels(live.Labels, left, want, home, installed, pods)
	if !labels.Equals(live.Labels, labels.Merge(left, safe)) {
		if err := applyLabels(ctx, cluster, home, safe); err != nil {
			return err
		}
	}
	return refused
}

// liveNamespace returns the agent's namespace, or nil if it does not exist. It uses a list request, because the agent
// has the permission to list namespaces but not to get them.
func liveNamespace(ctx context.Context, cluster client.Client, home string) (*metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := cluster.List(ctx, list,
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", home)}); err != nil {
		return nil, fmt.Errorf("read Namespace %s: %w", home, err)
	}
	if len(list.Items) != 1 || !list.Items[0].DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return &list.Items[0], nil
}

func agentPods(ctx context.Context, cluster client.Client, home string) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := cluster.List(ctx, list, client.InNamespace(home),
		client.MatchingLabels{guard.LabelApp: guard.AgentName}); err != nil {
		return nil, fmt.Errorf("list the agent's Pods: %w", err)
	}
	return list.Items, nil
}

func applyLabels(ctx context.Context, cluster client.Client, home string, want labels.Set) error {
	applied := make(map[string]any, len(want))
	for label, value := range want {
		applied[label] = value
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": home, "labels": applied},
	}}
	err := cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(namespace), client.FieldOwner(namespaceOwner),
		client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("label Namespace %s: %w", home, err)
	}
	return nil
}
