package guard

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// trustedCA is the ConfigMap with the API server's CA.
const trustedCA = "kube-root-ca.crt"

// annotationTokenAccount is the annotation on a Secret that selects its token's ServiceAccount.
const annotationTokenAccount = "kubernetes.io/service-account.name"

// ProtectionReason returns the reason why no module can write an object, or "" if modules can write it.
func ProtectionReason(k Key, agentNamespace string) string {
	for _, rule := range []func(Key, string) string{checkAgentKind, checkAgentCRD, checkAgentAPI, checkTrustedCA,
		checkAgentObject} {
		if text := rule(k, agentNamespace); text != "" {
			return text
		}
	}
	return ""
}

func checkAgentKind(k Key, _ string) string {
	if k.Group == v1beta2.GroupVersion.Group && agentKinds[k.Kind] != "" {
		return "objects of this kind control the agent and must not be part of a module"
	}
	return ""
}

func checkAgentCRD(k Key, _ string) string {
	if IsCRD(k.GroupKind()) && isAgentCRD(k.Name) {
		return "this CRD defines a kind that controls the agent"
	}
	return ""
}

// checkCRD refuses CRDs that define a kind in a built-in API group or use a name of the agent's kinds. It also
// refuses CRDs whose name is not PLURAL.GROUP.
func checkCRD(o *unstructured.Unstructured, _ string) string {
	if !IsCRD(o.GroupVersionKind().GroupKind()) {
		return ""
	}
	plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
	group := ServedKind(o).Group
	switch {
	case !IsCustomGroup(group):
		return fmt.Sprintf("this CRD would define kinds of the built-in API group %q", group)
	case group == v1beta2.GroupVersion.Group && usesAgentName(o):
		return "this CRD claims a name of a kind that controls the agent"
	case o.GetName() != plural+"."+group:
		return fmt.Sprintf("the name of this CRD must be its plural and its group, %s.%s", plural, group)
	}
	return ""
}

// usesAgentName reports whether a CRD uses the name of one of the agent's kinds. If the agent's own CRD were deleted, a
// CRD with the same names could prevent the agent from creating its CRD again.
func usesAgentName(o *unstructured.Unstructured) bool {
	names, _, _ := unstructured.NestedMap(o.Object, "spec", "names")
	short, _, _ := unstructured.NestedStringSlice(names, "shortNames")
	for _, field := range []string{"kind", "listKind", "plural", "singular"} {
		name, _ := names[field].(string)
		short = append(short, name)
	}
	for kind, plural := range agentKinds {
		for _, name := range short {
			if strings.EqualFold(name, kind) || strings.EqualFold(name, kind+"List") || strings.EqualFold(name, plural) {
				return true
			}
		}
	}
	return false
}

func checkAgentAPI(k Key, _ string) string {
	if k.Kind == apiServiceKind.kind && strings.HasSuffix(k.Name, "."+v1beta2.GroupVersion.Group) {
		return "this APIService would serve the API that controls the agent"
	}
	return ""
}

func checkTrustedCA(k Key, agentNamespace string) string {
	if k.isAny(configMapKind) && k.Namespace == agentNamespace && k.Name == trustedCA {
		return "this ConfigMap determines which API server the agent trusts"
	}
	return ""
}

func checkAgentObject(k Key, agentNamespace string) string {
	if (k.Namespace == agentNamespace || k.Namespace == "") && isAgentName(k.Name) {
		return "the name is reserved for the agent"
	}
	return ""
}

func isAgentCRD(name string) bool {
	plural, group, _ := strings.Cut(name, ".")
	return group == v1beta2.GroupVersion.Group && isAgentPlural(plural)
}

func isAgentPlural(name string) bool {
	for _, plural := range agentKinds {
		if name == plural {
			return true
		}
	}
	return false
}

// podTemplatePaths are the field paths of pod templates.
var podTemplatePaths = [][]string{{"spec", "template"}, {"template"}, {"spec", "jobTemplate", "spec", "template"}}

// checkBuiltInReferences applies checkAgentAccount to the built-in kinds that the admission policies also check.
func checkBuiltInReferences(o *unstructured.Unstructured, agentNamespace string) string {
	k := KeyOf(o)
	if hasPods(k.Group) || k.isAny(ingressKind) {
		return checkAgentAccount(o, agentNamespace)
	}
	return ""
}

// podGroups are the API groups of kinds with pods or pod templates.
var podGroups = []string{"", "apps", "batch"}

// hasPods reports whether the API group contains kinds with pods or pod templates.
func hasPods(group string) bool { return slices.Contains(podGroups, group) }

// checkAgentAccount refuses pods with the agent's ServiceAccount. It also refuses objects that would expose this
// ServiceAccount's token, or give pods access to the agent's Secrets.
func checkAgentAccount(o *unstructured.Unstructured, agentNamespace string) string {
	if o.GetNamespace() != agentNamespace {
		return ""
	}
	k := KeyOf(o)
	if k.isAny(secretKind) && isAgentName(o.GetAnnotations()[annotationTokenAccount]) {
		return "this Secret would contain a token of the agent's ServiceAccount"
	}
	if k.isAny(serviceAccountKind) {
		// Kubernetes copies a ServiceAccount's imagePullSecrets to its pods.
		lists := map[string]any{"imagePullSecrets": o.Object["imagePullSecrets"], "secrets": o.Object["secrets"]}
		if secret := findAgentSecret(lists, agentNamespace, agentNamespace); secret != "" {
			return fmt.Sprintf("imagePullSecrets would give its pods access to Secret %s of the agent", secret)
		}
	}
	for _, path := range append(slices.Clone(podTemplatePaths), nil) {
		path = append(slices.Clone(path), "spec")
		spec, _, _ := unstructured.NestedMap(o.Object, path...)
		for _, field := range []string{"serviceAccountName", "serviceAccount"} {
			if account, _ := spec[field].(string); isAgentName(account) {
				return fmt.Sprintf("%s.%s would run its pods as the agent", strings.Join(path, "."), field)
			}
		}
		if secret := findAgentSecret(spec, agentNamespace, agentNamespace); secret != "" {
			return fmt.Sprintf("%s would give its pods access to Secret %s of the agent", strings.Join(path, "."),
				secret)
		}
	}
	return ""
}

// checkPodLabels refuses pods with the agent's label, because the agent's Service and Deployment would select them. It
// also refuses ControllerRevisions with a pod template, because Kubernetes creates pods from them, and this check does
// not see those pods.
func checkPodLabels(o *unstructured.Unstructured, agentNamespace string) string {
	k := KeyOf(o)
	if k.Namespace != agentNamespace || !hasPods(k.Group) {
		return ""
	}
	if k.Kind == controllerRevisionKind.kind && hasTemplate(o.Object["data"]) {
		return "only Kubernetes writes ControllerRevisions"
	}
	carriers := slices.Clone(podTemplatePaths)
	if k.Kind == "Pod" || k.Kind == "ReplicaSet" {
		carriers = append(carriers, nil)
	}
	for _, path := range carriers {
		path = append(slices.Clone(path), "metadata", "labels")
		labels, _, _ := unstructured.NestedMap(o.Object, path...)
		if labels[LabelApp] == AgentName {
			return fmt.Sprintf("%s: label %s=%s would make its pods look like the agent's", strings.Join(path, "."),
				LabelApp, AgentName)
		}
	}
	return ""
}

// hasTemplate reports whether a ControllerRevision's data contains a pod template, or can contain one because it cannot
// be read. Kubernetes ignores case in field names.
func hasTemplate(data any) bool {
	fields, isMap := data.(map[string]any)
	if !isMap {
		return data != nil
	}
	for field, value := range fields {
		if !strings.EqualFold(field, "spec") {
			continue
		}
		spec, isMap := value.(map[string]any)
		if !isMap {
			return true
		}
		for inner := range spec {
			if strings.EqualFold(inner, "template") {
				return true
			}
		}
	}
	return false
}

// autoscalers are the kinds of autoscalers, each with the field in its spec that contains the scaled workload.
var autoscalers = []struct {
	kind  protectedKind
	field string
}{{autoscalerKind, "scaleTargetRef"}, {verticalKind, "targetRef"}}

// checkAutoscaler refuses autoscalers that would scale the agent's Deployment.
func checkAutoscaler(o *unstructured.Unstructured, agentNamespace string) string {
	k := KeyOf(o)
	for _, a := range autoscalers {
		name, _, _ := unstructured.NestedString(o.Object, "spec", a.field, "name")
		if k.Namespace == agentNamespace && k.isAny(a.kind) && isAgentName(name) {
			return fmt.Sprintf("spec.%s.name would scale the agent", a.field)
		}
	}
	return ""
}

// checkRoleBinding refuses bindings that bind the agent's roles to other accounts, or any role to the agent.
func checkRoleBinding(o *unstructured.Unstructured, agentNamespace string) string {
	k := KeyOf(o)
	if !k.isAny(roleBindingKind, clusterRoleBindingKind) {
		return ""
	}
	role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
	if isAgentName(role) {
		return fmt.Sprintf("roleRef.name would grant role %s of the agent to other accounts", role)
	}
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for n, s := range subjects {
		subject, _ := s.(map[string]any)
		name, _ := subject["name"].(string)
		namespace, _ := subject["namespace"].(string)
		user, isUser := strings.CutPrefix(name, "system:serviceaccount:"+agentNamespace+":")
		if subject["kind"] == "ServiceAccount" && namespace == agentNamespace && isAgentName(name) || isUser &&
			isAgentName(user) {
			return fmt.Sprintf("subjects[%d] changes the permissions of the agent", n)
		}
	}
	return ""
}
