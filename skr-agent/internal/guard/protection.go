package guard

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// AgentName is the name of the agent's ServiceAccount. The names of all its other objects start with it.
const AgentName = "skr-agent"

// LabelApp is the label by which the agent's Deployment, ReplicaSets and Service select its pods.
const LabelApp = "app.kubernetes.io/name"

// ownKinds are the agent's custom resources, with the plural that definitions and rules have.
var ownKinds = map[string]string{
	"Kyma": "kymas", "Manifest": "manifests", "ModuleTemplate": "moduletemplates",
	"ModuleReleaseMeta": "modulereleasemetas", "Watcher": "watchers",
}

// Protected returns the rule that keeps every module from an object with this key; empty if modules may have it.
func Protected(k Key, home string) string {
	for _, rule := range []func(Key, string) string{agentKind, agentDefinition, agentAPI, trustedCA, agentObject} {
		if text := rule(k, home); text != "" {
			return text
		}
	}
	return ""
}

func agentKind(k Key, _ string) string {
	if k.Group == v1beta2.GroupVersion.Group && ownKinds[k.Kind] != "" {
		return "controls the agent, which only a bundle may do"
	}
	return ""
}

func agentDefinition(k Key, _ string) string {
	if IsCRD(k.GroupKind()) && isOwnDefinition(k.Name) {
		return "defines objects that control the agent"
	}
	return ""
}

func agentAPI(k Key, _ string) string {
	if k.Kind == "APIService" && strings.HasSuffix(k.Name, "."+v1beta2.GroupVersion.Group) {
		return "would serve objects that control the agent"
	}
	return ""
}

func trustedCA(k Key, home string) string {
	if k.Group == "" && k.Kind == "ConfigMap" && k.Namespace == home && k.Name == "kube-root-ca.crt" {
		return "sets the API server that the agent uses"
	}
	return ""
}

func agentObject(k Key, home string) string {
	if (k.Namespace == home || k.Namespace == "") && isAgents(k.Name) {
		return "has a name that is reserved for the agent"
	}
	return ""
}

func isAgents(name string) bool {
	return name == AgentName || strings.HasPrefix(name, AgentName+"-") || strings.HasPrefix(name, AgentName+".") ||
		strings.HasPrefix(name, "kyma-pull-")
}

func isOwnDefinition(name string) bool {
	plural, group, _ := strings.Cut(name, ".")
	return group == v1beta2.GroupVersion.Group && isOwnPlural(plural)
}

func isOwnPlural(name string) bool {
	for _, plural := range ownKinds {
		if name == plural {
			return true
		}
	}
	return false
}

// templates are the paths of pod templates in workloads.
var templates = [][]string{{"spec", "template"}, {"template"}, {"spec", "jobTemplate", "spec", "template"}}

// borrows finds pods that would run as the agent, and objects that would give away its token or another of its
// Secrets.
func borrows(o *unstructured.Unstructured, home string) string {
	if o.GetNamespace() != home {
		return ""
	}
	k := KeyOf(o)
	if k.Group == "" && k.Kind == "Secret" && isAgents(o.GetAnnotations()["kubernetes.io/service-account.name"]) {
		return "requests a token of the agent's ServiceAccount"
	}
	if k.Group == "" && k.Kind == "ServiceAccount" {
		// Kubernetes copies its imagePullSecrets to its pods.
		if secret := secretIn(o.Object, home, home); secret != "" {
			return fmt.Sprintf("imagePullSecrets would give its pods Secret %s of the agent", secret)
		}
	}
	for _, path := range append(slices.Clone(templates), nil) {
		path = append(slices.Clone(path), "spec")
		spec, _, _ := unstructured.NestedMap(o.Object, path...)
		for _, field := range []string{"serviceAccountName", "serviceAccount"} {
			if account, _ := spec[field].(string); isAgents(account) {
				return fmt.Sprintf("%s.%s would make its pods the agent", strings.Join(path, "."), field)
			}
		}
		if secret := secretIn(spec, home, home); secret != "" {
			return fmt.Sprintf("%s would give its pods Secret %s of the agent", strings.Join(path, "."), secret)
		}
	}
	return ""
}

// resembles finds pods that Kubernetes would take for the agent's, and revisions, from which Kubernetes makes pods
// without a check.
func resembles(o *unstructured.Unstructured, home string) string {
	k := KeyOf(o)
	if k.Namespace != home || !slices.Contains([]string{"", "apps", "batch"}, k.Group) {
		return ""
	}
	if k.Kind == "ControllerRevision" {
		return "only Kubernetes writes revisions of workloads"
	}
	carriers := slices.Clone(templates)
	if k.Kind == "Pod" || k.Kind == "ReplicaSet" {
		carriers = append(carriers, nil)
	}
	for _, path := range carriers {
		path = append(slices.Clone(path), "metadata", "labels")
		labels, _, _ := unstructured.NestedMap(o.Object, path...)
		if labels[LabelApp] == AgentName {
			return fmt.Sprintf("%s: %s=%s would make its pods the agent's", strings.Join(path, "."), LabelApp,
				AgentName)
		}
	}
	return ""
}

// aims finds autoscalers that would set the number of agents or their memory.
func aims(o *unstructured.Unstructured, home string) string {
	k := KeyOf(o)
	target := map[schema.GroupKind]string{
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:      "scaleTargetRef",
		{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}: "targetRef",
	}[schema.GroupKind{Group: k.Group, Kind: k.Kind}]
	name, _, _ := unstructured.NestedString(o.Object, "spec", target, "name")
	if k.Namespace == home && target != "" && isAgents(name) {
		return fmt.Sprintf("spec.%s.name: would scale the agent", target)
	}
	return ""
}

// seizes finds bindings that give the agent's rights away, or change the agent's rights.
func seizes(o *unstructured.Unstructured, home string) string {
	k := KeyOf(o)
	if k.Group != "rbac.authorization.k8s.io" || !strings.HasSuffix(k.Kind, "RoleBinding") {
		return ""
	}
	role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
	if isAgents(role) {
		return fmt.Sprintf("roleRef.name: gives away role %s of the agent", role)
	}
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for n, s := range subjects {
		subject, _ := s.(map[string]any)
		name, _ := subject["name"].(string)
		namespace, _ := subject["namespace"].(string)
		user, isUser := strings.CutPrefix(name, "system:serviceaccount:"+home+":")
		if subject["kind"] == "ServiceAccount" && namespace == home && isAgents(name) || isUser && isAgents(user) {
			return fmt.Sprintf("subjects[%d]: changes the rights of the agent", n)
		}
	}
	return ""
}
