package guard

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// starves finds what would leave the agent no pods, memory, Secrets or requests: nothing that a later bundle could repair.
func starves(o *unstructured.Unstructured, home string) string {
	k := KeyOf(o)
	switch (schema.GroupKind{Group: k.Group, Kind: k.Kind}) {
	case schema.GroupKind{Kind: "ResourceQuota"}, schema.GroupKind{Kind: "LimitRange"}:
		if k.Namespace == home {
			return "would limit the agent's own pods and objects: limit namespaces of the module's own"
		}
	case schema.GroupKind{Group: flowControlGroup, Kind: "PriorityLevelConfiguration"}:
		if slices.Contains(priorityLevels, k.Name) {
			return "is a priority level of Kubernetes, which serves the agent's requests"
		}
	case schema.GroupKind{Group: flowControlGroup, Kind: "FlowSchema"}:
		return seizesRequests(o, home)
	}
	return ""
}

const flowControlGroup = "flowcontrol.apiserver.k8s.io"

// priorityLevels are those that every API server has.
var priorityLevels = []string{
	"exempt", "catch-all", "system", "node-high", "leader-election", "workload-high", "workload-low", "global-default",
}

// seizesRequests finds subjects of a FlowSchema that the agent is one of.
func seizesRequests(o *unstructured.Unstructured, home string) string {
	rules, _, err := unstructured.NestedSlice(o.Object, "spec", "rules")
	if err != nil {
		return "spec.rules cannot be read: " + err.Error()
	}
	account := "system:serviceaccount:" + home + ":"
	groups := []string{"*", "system:authenticated", "system:serviceaccounts", "system:serviceaccounts:" + home}
	for i, rule := range rules {
		r, _ := rule.(map[string]any)
		subjects, _ := r["subjects"].([]any)
		for n, s := range subjects {
			subject, _ := s.(map[string]any)
			user, _, _ := unstructured.NestedString(subject, "user", "name")
			group, _, _ := unstructured.NestedString(subject, "group", "name")
			namespace, _, _ := unstructured.NestedString(subject, "serviceAccount", "namespace")
			name, _, _ := unstructured.NestedString(subject, "serviceAccount", "name")
			owner, isUser := strings.CutPrefix(user, account)
			if user == "*" || isUser && isAgents(owner) || slices.Contains(groups, group) || namespace == home && (name == "*" || isAgents(name)) {
				return fmt.Sprintf("spec.rules[%d].subjects[%d]: would decide how much of the API server the agent gets: "+
					"name accounts of the module's own", i, n)
			}
		}
	}
	return ""
}

// usurps finds what would serve Kubernetes' own API, or be taken for the API server.
func usurps(o *unstructured.Unstructured, _ string) string {
	k := KeyOf(o)
	switch (schema.GroupKind{Group: k.Group, Kind: k.Kind}) {
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		if _, group, _ := strings.Cut(k.Name, "."); !strings.Contains(group, ".") || slices.Contains(builtInGroups, group) {
			return fmt.Sprintf("would serve group %q of Kubernetes", group)
		}
	case schema.GroupKind{Kind: "Service"}, schema.GroupKind{Kind: "Endpoints"},
		schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:
		isIt := k.Name == apiServerService || o.GetLabels()["kubernetes.io/service-name"] == apiServerService
		if k.Namespace == metav1.NamespaceDefault && isIt {
			return "is where everybody in the cluster finds the API server"
		}
	}
	return ""
}

// apiServerService is what the API server calls itself in namespace default.
const apiServerService = "kubernetes"

// builtInGroups are the groups that the API server serves itself, beside those without a dot in their names. Others that end like them
// are for servers that modules bring, such as external.metrics.k8s.io.
var builtInGroups = []string{
	AdmissionGroup, "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
	"certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", flowControlGroup, "internal.apiserver.k8s.io",
	"networking.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
	"storagemigration.k8s.io",
}
