package guard

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// checkQuota refuses ResourceQuotas and LimitRanges in the agent's namespace. They could stop the agent, and a stopped
// agent cannot remove them.
func checkQuota(o *unstructured.Unstructured, agentNamespace string) string {
	if k := KeyOf(o); k.isAny(quotaKinds...) && k.Namespace == agentNamespace {
		return "this object would limit the agent's pods and objects: use the module's own namespace"
	}
	return ""
}

// Limits for a module's PriorityLevelConfigurations. The API server divides its capacity by shares (KEP-1040), so a
// very large share would starve other levels. Queues use the API server's memory.
const (
	maxShares = 100
	maxQueues = 256
)

// checkPriorityLevel refuses changes to the built-in PriorityLevelConfigurations, and levels with too many shares or
// queues.
func checkPriorityLevel(o *unstructured.Unstructured, _ string) string {
	k := KeyOf(o)
	if !k.isAny(priorityLevelKind) {
		return ""
	}
	if slices.Contains(priorityLevels, k.Name) {
		return "this is a built-in priority level, which the agent's requests use"
	}
	shares, queues := concurrencyShares(o), integerAt(o, "spec", "limited", "limitResponse", "queuing", "queues")
	switch kind, _, _ := unstructured.NestedString(o.Object, "spec", "type"); {
	case kind == "Exempt":
		return "spec.type Exempt has no concurrency limit: use Limited"
	case shares < 0 || shares > maxShares:
		return fmt.Sprintf(
			"spec.limited.nominalConcurrencyShares %d would leave too few seats to other levels: use at most %d",
			shares, maxShares)
	case queues < 0 || queues > maxQueues:
		return fmt.Sprintf(
			"spec.limited.limitResponse.queuing.queues %d would use too much of the API server's memory: use at most %d",
			queues, maxQueues)
	}
	return ""
}

// checkTotalShares refuses a module's content if its PriorityLevelConfigurations have more than maxShares shares in
// total.
func checkTotalShares(objects []*unstructured.Unstructured) error {
	total := int64(0)
	for _, o := range objects {
		if k := KeyOf(o); k.isAny(priorityLevelKind) {
			if total += concurrencyShares(o); total > maxShares {
				return &Refusal{Rule: ruleShares, Object: k, reason: fmt.Sprintf(
					"the sum of spec.limited.nominalConcurrencyShares in the module's priority levels is %d: "+
						"use at most %d", total, maxShares)}
			}
		}
	}
	return nil
}

// concurrencyShares returns a PriorityLevelConfiguration's shares. Older API versions name the field
// assuredConcurrencyShares.
func concurrencyShares(o *unstructured.Unstructured) int64 {
	return max(integerAt(o, "spec", "limited", "nominalConcurrencyShares"),
		integerAt(o, "spec", "limited", "assuredConcurrencyShares"))
}

var priorityLevels = []string{
	"exempt", "catch-all", "system", "node-high", "leader-election", "workload-high", "workload-low", "global-default",
}

// checkFlowSchema refuses FlowSchemas that would classify requests from Kubernetes itself or from the agent.
func checkFlowSchema(o *unstructured.Unstructured, agentNamespace string) string {
	if k := KeyOf(o); !k.isAny(flowSchemaKind) {
		return ""
	}
	rules, err := listAt(o, "spec", "rules")
	if err != nil {
		return "spec.rules cannot be read: " + err.Error()
	}
	for i, rule := range rules {
		r, _ := rule.(map[string]any)
		subjects, _ := r["subjects"].([]any)
		for n, s := range subjects {
			subject, _ := s.(map[string]any)
			user, _, _ := unstructured.NestedString(subject, "user", "name")
			group, _, _ := unstructured.NestedString(subject, "group", "name")
			namespace, _, _ := unstructured.NestedString(subject, "serviceAccount", "namespace")
			name, _, _ := unstructured.NestedString(subject, "serviceAccount", "name")
			if isProtectedUser(user, agentNamespace) || isProtectedGroup(group, agentNamespace) ||
				isKubernetesNamespace(namespace) || namespace == agentNamespace &&
				(name == "*" || isAgentName(name)) {
				return fmt.Sprintf("spec.rules[%d].subjects[%d] would select requests from the agent or Kubernetes: "+
					"list only the module's own accounts", i, n)
			}
		}
	}
	return ""
}

// isProtectedUser reports whether a user name belongs to Kubernetes or the agent, or matches all users.
func isProtectedUser(user, agentNamespace string) bool {
	account, isAccount := strings.CutPrefix(user, "system:serviceaccount:")
	namespace, name, _ := strings.Cut(account, ":")
	if isAccount {
		return isKubernetesNamespace(namespace) || namespace == agentNamespace && isAgentName(name)
	}
	return user == "*" || strings.HasPrefix(user, "system:")
}

// isProtectedGroup reports whether a group contains users that Kubernetes or the agent uses.
func isProtectedGroup(group, agentNamespace string) bool {
	namespace, ofAccounts := strings.CutPrefix(group, "system:serviceaccounts:")
	if ofAccounts {
		return isKubernetesNamespace(namespace) || namespace == agentNamespace
	}
	return group == "*" || strings.HasPrefix(group, "system:")
}

// checkKubernetesAPI refuses APIServices for built-in API groups, and changes to the API server's Service and
// endpoints.
func checkKubernetesAPI(o *unstructured.Unstructured, _ string) string {
	k := KeyOf(o)
	switch {
	case k.isAny(apiServiceKind):
		if _, group, _ := strings.Cut(k.Name, "."); !strings.Contains(group, ".") || !IsCustomGroup(group) {
			return fmt.Sprintf("this APIService would serve the built-in API group %q", group)
		}
	case k.isAny(addressKinds...):
		isIt := k.Name == apiServerService || o.GetLabels()[labelServiceName] == apiServerService
		if k.Namespace == metav1.NamespaceDefault && isIt {
			return "this object defines the address of the API server for the whole cluster"
		}
	}
	return ""
}

// apiServerService is the name of the API server's Service. labelServiceName is the label on an EndpointSlice with its
// Service's name.
const (
	apiServerService = "kubernetes"
	labelServiceName = "kubernetes.io/service-name"
)
