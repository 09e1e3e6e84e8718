package guard

import (
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// policyVariable is a variable in an admission policy, for the policy's validations and for the variables that follow.
type policyVariable struct {
	name, comment, expression string
}

// namedVariable is a CEL expression for the name of the object in the request.
const namedVariable = "request.?name.orValue('') != '' ? request.name : " +
	"oldObject != null ? oldObject.metadata.name : object.metadata.name"

func ownVariable() policyVariable {
	return policyVariable{name: "own", expression: celText("^" + agentNames() + "$")}
}

// homeVariables returns the variables for policyHome.
func homeVariables() []policyVariable {
	var templates []string
	for _, path := range podTemplatePaths {
		templates = append(templates, celFields("object", path...))
	}
	var podLabels []string
	for label, value := range agentPodLabels() {
		podLabels = append(podLabels, celText(label)+": "+celText(value))
	}
	slices.Sort(podLabels)
	return []policyVariable{
		{name: "named", expression: namedVariable},
		{name: "subresource", expression: "request.?subResource.orValue('')"},
		{name: "written", expression: celExpression(`request.operation in <writes> && request.resource.group in <groups>`,
			"writes", celList(writes...), "groups", celList(podGroups...))},
		{name: "templates", expression: celExpression(`
!variables.written || variables.subresource != '' ? [] :
[<templates>].filter(t, t.hasValue()).map(t, t.value())`, "templates", strings.Join(templates, ", "))},
		{name: "pods", expression: `!variables.written || !(variables.subresource in ['', 'ephemeralcontainers']) ? [] :
([object.?spec] + variables.templates.map(t, t.?spec)).filter(s, s.hasValue()).map(s, s.value())`},
		{name: "containers", expression: `variables.pods.map(p,
[p.?initContainers, p.?containers, p.?ephemeralContainers].filter(c, c.hasValue()).map(c, c.value()))`},
		ownVariable(),
		{name: "podLabels", expression: "{" + strings.Join(podLabels, ", ") + "}"},
		{name: "open", expression: celText("^" + celAny(openLabels...))},
	}
}

// clusterVariables returns the variables for policyCluster.
func clusterVariables() []policyVariable {
	return []policyVariable{
		{name: "named", expression: namedVariable},
		ownVariable(),
		{name: "kind", expression: "request.resource.group + '/' + request.resource.resource"},
		{name: "levels", expression: "object == null ? {} : object.metadata.?labels.orValue({})"},
		{name: "levelsBefore", expression: "oldObject == null ? {} : oldObject.metadata.?labels.orValue({})"},
		{
			name: "shared", comment: "Namespaces that belong to no module and no tenant.",
			expression: celExpression(`
variables.kind == <namespaces> && object != null &&
(variables.named in [<home>, 'default'] || variables.named.startsWith(<kubernetes>))`,
				"namespaces", celText(keysOf(namespaceKind)[0]), "kubernetes", celText(kubernetesNamespaces)),
		},
		{name: "roleRules", expression: celExpression(`
object != null && variables.kind in <roles> && has(object.rules) && object.rules != null ? object.rules : []`,
			"roles", celList(keysOf(roleKind, clusterRoleKind)...))},
		{name: "subjects", expression: celExpression(`
object != null && variables.kind in <bindings> && has(object.subjects) && object.subjects != null ?
object.subjects : []`,
			"bindings", celList(keysOf(roleBindingKind, clusterRoleBindingKind)...))},
		{name: "flows", expression: celExpression(`
object != null && variables.kind == <flows> ? object.spec.?rules.orValue([]) : []`,
			"flows", celText(keysOf(flowSchemaKind)[0]))},
		{
			name: "parameters", comment: "Annotations contain the Secret for the deletion of a volume or snapshot.",
			expression: celExpression(`
object != null && (request.resource.group in <groups> || variables.kind == <volumes>) ?
[object.?parameters, object.metadata.?annotations].filter(p, p.hasValue()).map(p, p.value()) : []`,
				"groups", celList(storageGroups...), "volumes", celText(keysOf(volumeKind)[0])),
		},
		{name: "volume", expression: celExpression(`
object == null ? [] : variables.kind == <volumes> ? [object.spec] :
variables.kind == <attachments> ?
[object.?spec.?source.?inlineVolumeSpec].filter(s, s.hasValue()).map(s, s.value()) : []`,
			"volumes", celText(keysOf(volumeKind)[0]), "attachments", celText(keysOf(attachmentKind)[0]))},
		{
			name: "subjectSelectors",
			comment: "The namespace selectors of a network policy. A policy without a selector applies to all " +
				"namespaces.",
			expression: celExpression(`
object == null || request.resource.group != <admin> ? [] :
[object.?spec.?subject.?namespaces, object.?spec.?subject.?pods.?namespaceSelector]
.filter(s, s.hasValue()).map(s, s.value())`,
				"admin", celText(adminPolicyGroup)),
		},
		{name: "antreaSelectors", expression: celExpression(`
object == null || request.resource.group != <antrea> ? [] :
object.?spec.?appliedTo.orValue([]).map(a, a.?namespaceSelector.orValue({}))`, "antrea", celText(antreaGroup))},
		{name: "selectors", expression: celExpression(`
request.resource.group == <admin> && variables.subjectSelectors.size() == 0 ||
request.resource.group == <antrea> && variables.antreaSelectors.size() == 0 ? [{}] :
variables.subjectSelectors + variables.antreaSelectors`,
			"admin", celText(adminPolicyGroup), "antrea", celText(antreaGroup))},
		{name: "endpointSelectors", expression: celExpression(`
object == null || request.resource.group != <cilium> ? [] :
([object.?spec].filter(s, s.hasValue()).map(s, s.value()) + object.?specs.orValue([]))
.map(s, s.?endpointSelector.orValue({}))`,
			"cilium", celText(ciliumGroup))},
	}
}

// homeRequests selects the requests that policyHome checks: all writes, and requests that change pods, scales or
// tokens through a subresource.
func homeRequests() []requestMatch {
	group, all := []string{v1beta2.GroupVersion.Group}, []string{"*"}
	update, core := []string{"UPDATE"}, []string{""}
	return []requestMatch{
		{all, all, changes, inAnyNamespace},
		{group, []string{"manifests/status", "kymas/status"}, update, inAnyNamespace},
		{[]string{"apps"}, []string{"*/scale", "*/status"}, update, inAnyNamespace},
		{core, []string{"serviceaccounts/token"}, []string{"CREATE"}, inAnyNamespace},
		{core, []string{"pods/ephemeralcontainers", "pods/status", "pods/resize"}, update, inAnyNamespace},
		{core, []string{"pods/binding"}, []string{"CREATE"}, inAnyNamespace},
		{core, []string{"pods/exec", "pods/attach", "pods/portforward"}, []string{"CONNECT"}, inAnyNamespace},
	}
}

// excludedRequests selects the requests that policyHome does not check, although homeRequests selects them.
var excludedRequests = requestMatch{
	[]string{"", "events.k8s.io"}, []string{"events"}, []string{"*"}, inAnyNamespace,
}
