package install

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// interceptor is what webhooks and admission policies have in common: which requests they see.
type interceptor struct {
	Rules             []resourceRule        `json:"rules"`
	ResourceRules     []resourceRule        `json:"resourceRules"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
	ObjectSelector    *metav1.LabelSelector `json:"objectSelector"`
}

type resourceRule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
}

// target is something of the agent's that requests may be about.
type target struct {
	group, resource string
	labels          labels.Set
}

// targets are what nobody may come in between: the agent's orders, its memory and keys, its lease, and itself.
func targets() []target {
	all := []target{
		{"", "secrets", nil},
		{"", "secrets", labels.Set{"kyma-pull.dev/content": "index"}},
		{"coordination.k8s.io", "leases", nil},
		{"", "pods", labels.Set{"app.kubernetes.io/name": agentName}},
		{"apps", "deployments", labels.Set{"app.kubernetes.io/name": agentName}},
	}
	for _, plural := range ownKinds {
		all = append(all, target{v1beta2.GroupVersion.Group, plural, nil})
	}
	slices.SortFunc(all, func(a, b target) int { return strings.Compare(a.group+"/"+a.resource, b.group+"/"+b.resource) })
	return all
}

// intercepts finds webhooks and policies that would see, change or stop requests about the agent's own objects. A selector that asks
// for labels which these objects, and as far as this module says their namespace, do not have keeps them out.
func intercepts(o *unstructured.Unstructured, home string, homeLabels labels.Set) string {
	if o.GroupVersionKind().Group != "admissionregistration.k8s.io" {
		return ""
	}
	found, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	where := "webhooks[%d]"
	if constraints, ok, _ := unstructured.NestedMap(o.Object, "spec", "matchConstraints"); ok {
		found, where = []any{constraints}, "spec.matchConstraints"
	}
	for n, entry := range found {
		at := strings.Replace(where, "%d", fmt.Sprint(n), 1)
		raw, _ := entry.(map[string]any)
		var in interceptor
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &in); err != nil {
			return fmt.Sprintf("%s cannot be read: %v", at, err)
		}
		for _, t := range targets() {
			if in.sees(t, homeLabels) {
				return fmt.Sprintf("%s would intercept %s of the agent: let namespaceSelector leave out %s=%s, or", at, t.resource, corev1.LabelMetadataName, home)
			}
		}
	}
	return ""
}

// sees reports whether requests about a target come to the interceptor.
func (in interceptor) sees(t target, homeLabels labels.Set) bool {
	if !selects(in.NamespaceSelector, homeLabels) || !selects(in.ObjectSelector, t.labels) {
		return false
	}
	return slices.ContainsFunc(slices.Concat(in.Rules, in.ResourceRules), func(r resourceRule) bool {
		return slices.ContainsFunc(r.APIGroups, func(group string) bool { return group == "*" || group == t.group }) &&
			slices.ContainsFunc(r.Resources, func(resource string) bool {
				resource, _, _ = strings.Cut(resource, "/")
				return resource == "*" || resource == t.resource
			})
	})
}

// selects reports whether a selector lets the labels through. None does, and so does one that the API server is going to refuse.
func selects(selector *metav1.LabelSelector, found labels.Set) bool {
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err != nil || s.Matches(found)
}
