package guard

import (
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// limits finds limits of the agent's namespace, which no later bundle could repair.
func limits(o *unstructured.Unstructured, home string) string {
	if k := KeyOf(o); k.Group == "" && (k.Kind == "ResourceQuota" || k.Kind == "LimitRange") && k.Namespace == home {
		return "would limit the agent's own pods and objects: limit namespaces of the module's own"
	}
	return ""
}

// A module gets at most this much of the API server: the seats of workload-low, which Kubernetes gives to all
// ServiceAccounts together. The API server divides its seats by shares, so that an unlimited share leaves one seat
// to each other level (KEP-1040). Queues are memory.
const (
	maxShares = 100
	maxQueues = 256
)

// outranks finds priority levels of Kubernetes, and own levels that take the seats of the others.
func outranks(o *unstructured.Unstructured, _ string) string {
	k := KeyOf(o)
	if k.Group != flowControlGroup || k.Kind != "PriorityLevelConfiguration" {
		return ""
	}
	if slices.Contains(priorityLevels, k.Name) {
		return "is a priority level of Kubernetes, which serves the agent's requests"
	}
	shares, queues := sharesOf(o), number(o, "spec", "limited", "limitResponse", "queuing", "queues")
	switch kind, _, _ := unstructured.NestedString(o.Object, "spec", "type"); {
	case kind == "Exempt":
		return "spec.type: Exempt would take seats without limit: use Limited"
	case shares < 0 || shares > maxShares:
		return fmt.Sprintf("spec.limited.nominalConcurrencyShares: %d would leave no seats to others: use at most %d",
			shares, maxShares)
	case queues < 0 || queues > maxQueues:
		return fmt.Sprintf(
			"spec.limited.limitResponse.queuing.queues: %d would fill the API server's memory: use at most %d", queues,
			maxQueues)
	}
	return ""
}

// sharesInAll refuses priority levels that together have more shares than one may have.
func sharesInAll(objects []*unstructured.Unstructured) error {
	total := int64(0)
	for _, o := range objects {
		if k := KeyOf(o); k.Group == flowControlGroup && k.Kind == "PriorityLevelConfiguration" {
			if total += sharesOf(o); total > maxShares {
				return &Refusal{Rule: ruleShares, Object: k, text: fmt.Sprintf(
					"spec.limited.nominalConcurrencyShares: the module's priority levels have %d in all: use at most %d", total, maxShares)}
			}
		}
	}
	return nil
}

// sharesOf returns the shares of a priority level. In older versions of the API the field has another name.
func sharesOf(o *unstructured.Unstructured) int64 {
	return max(number(o, "spec", "limited", "nominalConcurrencyShares"),
		number(o, "spec", "limited", "assuredConcurrencyShares"))
}

// number returns a number of an object, 0 without one, and the largest one for a value that is not an integer.
func number(o *unstructured.Unstructured, path ...string) int64 {
	value, found, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil {
		return math.MaxInt32
	}
	switch v := value.(type) {
	case nil:
		return 0
	case int64:
		return v
	case int:
		return int64(v)
	}
	if found {
		return math.MaxInt32
	}
	return 0
}

const flowControlGroup = "flowcontrol.apiserver.k8s.io"

// priorityLevels are the levels of every API server.
var priorityLevels = []string{
	"exempt", "catch-all", "system", "node-high", "leader-election", "workload-high", "workload-low", "global-default",
}

// seizesRequests finds FlowSchemas for requests of Kubernetes or of the agent. A FlowSchema decides how much of the
// API server its subjects get.
func seizesRequests(o *unstructured.Unstructured, home string) string {
	if k := KeyOf(o); k.Group != flowControlGroup || k.Kind != "FlowSchema" {
		return ""
	}
	rules, _, err := unstructured.NestedSlice(o.Object, "spec", "rules")
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
			if foreignUser(user, home) || foreignGroup(group, home) || isKubernetes(namespace) || namespace == home &&
				(name == "*" || isAgents(name)) {
				return fmt.Sprintf("spec.rules[%d].subjects[%d]: would select requests of the agent or of Kubernetes: "+
					"name accounts of the module's own", i, n)
			}
		}
	}
	return ""
}

func isKubernetes(namespace string) bool { return strings.HasPrefix(namespace, "kube-") }

// foreignUser reports whether a user is Kubernetes or the agent, or stands for all users.
func foreignUser(user, home string) bool {
	account, isAccount := strings.CutPrefix(user, "system:serviceaccount:")
	namespace, name, _ := strings.Cut(account, ":")
	if isAccount {
		return isKubernetes(namespace) || namespace == home && isAgents(name)
	}
	return user == "*" || strings.HasPrefix(user, "system:")
}

// foreignGroup reports whether Kubernetes or the agent is in a group.
func foreignGroup(group, home string) bool {
	namespace, ofAccounts := strings.CutPrefix(group, "system:serviceaccounts:")
	if ofAccounts {
		return isKubernetes(namespace) || namespace == home
	}
	return group == "*" || strings.HasPrefix(group, "system:")
}

// usurps finds servers for the APIs of Kubernetes, and addresses that pods would take for the API server.
func usurps(o *unstructured.Unstructured, _ string) string {
	k := KeyOf(o)
	switch (schema.GroupKind{Group: k.Group, Kind: k.Kind}) {
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		if _, group, _ := strings.Cut(k.Name, "."); !strings.Contains(group, ".") || !IsCustom(group) {
			return fmt.Sprintf("would serve group %q of Kubernetes", group)
		}
	case schema.GroupKind{Kind: "Service"}, schema.GroupKind{Kind: "Endpoints"},
		schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:
		isIt := k.Name == apiServerService || o.GetLabels()["kubernetes.io/service-name"] == apiServerService
		if k.Namespace == metav1.NamespaceDefault && isIt {
			return "is the address of the API server for the whole cluster"
		}
	}
	return ""
}

// apiServerService is the name of the API server's Service in namespace default.
const apiServerService = "kubernetes"
