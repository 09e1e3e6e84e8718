package takeover

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// Leftovers are lifecycle-manager's own objects in a runtime, in the order of removal. They are parts of the webhook
// that reports changes to the control plane. The list includes objects from earlier lifecycle-manager versions.
//
// Source: lifecycle-manager, skr-webhook/resources.yaml, internal/service/watcher/resources.
var Leftovers = []bundle.ObjectRef{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration", Name: "skr-webhook"},
	{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: namespace, Name: "skr-webhook"},
	{Version: "v1", Kind: "Service", Namespace: namespace, Name: "skr-webhook"},
	{Version: "v1", Kind: "Service", Namespace: namespace, Name: "skr-webhook-metrics"},
	{Version: "v1", Kind: "Secret", Namespace: namespace, Name: "skr-webhook-tls"},
	{
		Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy", Namespace: namespace,
		Name: "kyma-project.io--seed-to-watcher",
	},
	{
		Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy", Namespace: namespace,
		Name: "kyma-project.io--watcher-to-apiserver",
	},
	{
		Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy", Namespace: namespace,
		Name: "kyma-project.io--metrics-to-watcher",
	},
	{
		Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy", Namespace: namespace,
		Name: "kyma-project.io--watcher-to-dns",
	},
	{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass", Name: "skr-webhook-priority"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding", Name: "read-kymas"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "kyma-reader"},
	{Version: "v1", Kind: "ServiceAccount", Namespace: namespace, Name: "skr-webhook-sa"},
}

// isLeftover reports whether an object with a name in Leftovers belongs to lifecycle-manager, according to the object's
// labels, annotations and field managers.
func isLeftover(o *metav1.PartialObjectMetadata) bool {
	for _, annotation := range []string{v1beta2.AnnotationOwnedBy, v1beta2.AnnotationOwnedByDeprecated,
		v1beta2.AnnotationAdopt} {
		if o.Annotations[annotation] != "" {
			return false
		}
	}
	if o.Labels[v1beta2.LabelModuleName] != "" {
		return false
	}
	return o.Labels[v1beta2.LabelManagedBy] == v1beta2.ManagedByKyma ||
		slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Subresource == "" && slices.Contains(v1beta2.LifecycleManagerFieldManagers(), e.Manager)
		})
}

// kymaAnnotations returns the names of the runtime Kyma's annotations that lifecycle-manager sets to the name of the
// control plane's Kyma.
func kymaAnnotations(kyma *v1beta2.Kyma) []string {
	var marks []string
	for _, annotation := range []string{v1beta2.AnnotationOwnedBy, v1beta2.AnnotationOwnedByDeprecated} {
		if mark := kyma.Annotations[annotation]; mark != "" && !strings.HasPrefix(mark, namespace+"/") {
			marks = append(marks, annotation)
		}
	}
	return marks
}
