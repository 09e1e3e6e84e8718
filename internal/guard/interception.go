package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// protectedTargets returns the objects that a module's webhooks and policies must not intercept: the agent's custom
// resources, Secrets, Lease, Events, namespace, pods, controllers and CRDs.
func protectedTargets() []target {
	pods, none := agentPodLabels(), labels.Set{}
	all := []target{
		{group: "apiextensions.k8s.io", resource: crdResource, inCluster: true},
		{group: "authorization.k8s.io", resource: "selfsubjectaccessreviews", inCluster: true},
		{group: "apps", resource: "deployments", labels: labels.Set{LabelApp: AgentName}},
		{group: "apps", resource: "replicasets", labels: pods},
		{group: "coordination.k8s.io", resource: "leases", labels: none},
		{group: "", resource: "configmaps", labels: none},
		{group: "", resource: "events", labels: none},
		{group: "", resource: "namespaces"},
		{group: "", resource: "pods", labels: pods},
		{group: "", resource: "pods/binding", labels: none}, // the pod's labels are not on the binding
		{group: "", resource: "secrets", labels: none},
		{group: "", resource: "serviceaccounts", labels: labels.Set{LabelApp: AgentName}},
		{group: "", resource: "serviceaccounts/token", labels: none},
		{group: "events.k8s.io", resource: "events", labels: none},
	}
	for _, plural := range slices.Sorted(maps.Values(agentKinds)) {
		all = append(all, target{group: v1beta2.GroupVersion.Group, resource: plural})
	}
	return all
}

// checkInterception refuses webhooks, policies and bindings that could intercept requests about the agent's objects,
// now or after a change to labels. policies contains the module's admission policies, each as its kind
// and name.
func checkInterception(o *unstructured.Unstructured, agentNamespace string, policies map[string]bool) string {
	all, problem := parseInterceptors(o)
	if problem != "" {
		return problem + ": correct it"
	}
	policy, _, _ := unstructured.NestedString(o.Object, "spec", "policyName")
	if isBinding(o) && policies[strings.TrimSuffix(o.GetKind(), "Binding")+" "+policy] {
		return "" // the policy is also part of the module, and is checked separately
	}
	for _, in := range all {
		for _, t := range protectedTargets() {
			if !in.matchesTarget(t) || excludesTarget(in.ObjectSelector, t) {
				continue
			}
			if t.inCluster {
				// Refuse only rules that name the resource or its group. Accept a webhook for all groups and resources:
				// if it blocks writes to CRDs, the agent continues with the existing CRDs.
				if in.namesTarget(t) && (t.resource != crdResource || !sparesAgentCRDs(o)) {
					return fmt.Sprintf(
						"%s would intercept %s of the agent, and no namespaceSelector can exclude them: exclude "+
							"group %s in the rules, or begin each validation of a ValidatingAdmissionPolicy with "+
							"object.spec.group != 'GROUP' ||",
						in.path, t.resource, t.group)
				}
				continue
			}
			if !in.excludesNamespace(agentNamespace) {
				return fmt.Sprintf(
					"%s would intercept %s of the agent: exclude %s=%s in namespaceSelector (%s.namespaceSelector: "+
						"{matchExpressions: [{key: %s, operator: NotIn, values: [%s]}]})",
					in.path, t.resource, corev1.LabelMetadataName, agentNamespace, in.path, corev1.LabelMetadataName, agentNamespace)
			}
		}
	}
	return ""
}

// InterceptorKinds returns the kinds of objects that can intercept API requests: webhooks, admission policies and
// bindings.
func InterceptorKinds() []string {
	return []string{
		"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	}
}

// CheckNamespaceLabels refuses changes to labels on the agent's namespace that would let an installed webhook or policy
// intercept requests for the agent's objects. The parameters before and after are the namespace's labels.
// CheckNamespaceLabels returns "" for accepted changes.
func CheckNamespaceLabels(
	before, after labels.Set, agentNamespace string, installed []unstructured.Unstructured,
) string {
	name := labels.Set{corev1.LabelMetadataName: agentNamespace}
	before, after = labels.Merge(before, name), labels.Merge(after, name)
	var changed []string
	for label, value := range after {
		if was, ok := before[label]; !ok || was != value {
			changed = append(changed, label+"="+value)
		}
	}
	for label := range before {
		if _, stays := after[label]; !stays {
			changed = append(changed, "no "+label)
		}
	}
	slices.Sort(changed)
	for n := range installed {
		all, _ := parseInterceptors(&installed[n]) // the API server accepted the object, so decoding cannot fail
		for _, in := range all {
			for _, t := range protectedTargets() {
				if !t.inCluster && in.matchesTarget(t) && !excludesTarget(in.ObjectSelector, t) &&
					!in.excludesNamespace(agentNamespace) &&
					!selectorMatches(in.NamespaceSelector, before) && selectorMatches(in.NamespaceSelector, after) {
					return fmt.Sprintf(
						"metadata.labels: %s would let %s, %s, intercept %s of the agent: do not change the labels "+
							"in its namespaceSelector",
						strings.Join(changed, ", "), KeyOf(&installed[n]), in.path, t.resource)
				}
			}
		}
	}
	return ""
}
