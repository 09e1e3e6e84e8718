package content

import (
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// dropForeignFields removes fields that other programs set: aggregated ClusterRoles' rules, a Lease's holder, and
// injected CA bundles. Server-side apply then keeps their live values.
func dropForeignFields(o *unstructured.Unstructured) {
	if o.GetKind() == "ClusterRole" && o.GroupVersionKind().Group == "rbac.authorization.k8s.io" {
		if rule, _, _ := unstructured.NestedMap(o.Object, "aggregationRule"); rule != nil {
			unstructured.RemoveNestedField(o.Object, "rules")
		}
	}
	if gvk := o.GroupVersionKind(); gvk.Group == "coordination.k8s.io" && gvk.Kind == "Lease" {
		for _, field := range []string{"holderIdentity", "acquireTime", "renewTime", "leaseTransitions"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
	}
	injected := hasInjector(o)
	for _, holder := range caHolders(o) {
		if bundle, ok := holder["caBundle"].(string); ok && (injected || isPlaceholder(bundle)) {
			delete(holder, "caBundle")
		}
	}
}

// caHolders returns the parts of an object that can contain a field caBundle, such as the clientConfig of a webhook.
func caHolders(o *unstructured.Unstructured) []map[string]any {
	var holders []map[string]any
	add := func(from map[string]any, path ...string) {
		if holder, found, err := unstructured.NestedFieldNoCopy(from, path...); found && err == nil {
			if fields, ok := holder.(map[string]any); ok {
				holders = append(holders, fields)
			}
		}
	}
	switch gvk := o.GroupVersionKind(); gvk.GroupKind() {
	case schema.GroupKind{Group: guard.AdmissionGroup, Kind: "ValidatingWebhookConfiguration"},
		schema.GroupKind{Group: guard.AdmissionGroup, Kind: "MutatingWebhookConfiguration"}:
		webhooks, _ := o.Object["webhooks"].([]any)
		for _, entry := range webhooks {
			if webhook, ok := entry.(map[string]any); ok {
				add(webhook, "clientConfig")
			}
		}
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		add(o.Object, "spec", "conversion", "webhook", "clientConfig")
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		add(o.Object, "spec")
	}
	return holders
}

// isPlaceholder reports whether a CA bundle does not contain a certificate. Generators write placeholders such as Cg==
// (a line break) for an injector.
func isPlaceholder(bundle string) bool {
	decoded, err := base64.StdEncoding.DecodeString(bundle)
	if err != nil {
		return false // not a placeholder; the API server reports the invalid value
	}
	block, _ := pem.Decode(decoded)
	return block == nil || len(block.Bytes) == 0
}

var openShiftInjectors = []string{
	"service.beta.openshift.io/inject-cabundle", "service.alpha.openshift.io/inject-cabundle",
}

// hasInjector reports whether an annotation requests the injection of a CA bundle.
//
// Source: cert-manager documentation, CA Injector; OpenShift documentation, service CA certificates.
func hasInjector(o *unstructured.Unstructured) bool {
	for annotation, value := range o.GetAnnotations() {
		if strings.HasPrefix(annotation, "cert-manager.io/inject-") ||
			slices.Contains(openShiftInjectors, annotation) && value == "true" {
			return true
		}
	}
	return false
}
