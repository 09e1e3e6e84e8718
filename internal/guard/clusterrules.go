package guard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

var rbacRequests = []requestMatch{
	{[]string{rbacGroup}, resourcesOf(clusterRoleKind, clusterRoleBindingKind), changes, inCluster},
	{[]string{rbacGroup}, resourcesOf(roleKind, roleBindingKind), writes, inAnyNamespace},
}

var flowControlRequests = []requestMatch{
	{[]string{flowControlGroup}, resourcesOf(priorityLevelKind, flowSchemaKind), changes, inCluster},
}

// listClusterRules returns the rules for permissions, limits, storage and the API server.
func listClusterRules() []rule {
	return []rule{
		{name: "agent-rights", check: checkRoleBinding, policies: bindingPolicies},
		{name: "granted-rights", check: checkRole, policies: rolePolicies},
		{
			name:  "namespace-limits",
			check: checkQuota,
			policies: func() []policyCheck {
				return []policyCheck{{
					policy: policyHome,
					expression: celExpression(`
!(request.resource.group == '' && request.resource.resource in <quotas> && request.operation != 'DELETE')`,
						"quotas", celList(resourcesOf(quotaKinds...)...)),
					message: "quotas and limit ranges of this namespace could stop skr-agent",
				}}
			},
		},
		{
			name:  "priority-level",
			check: checkPriorityLevel,
			policies: func() []policyCheck {
				return []policyCheck{{
					policy: policyCluster, requests: flowControlRequests,
					expression: celExpression(`
variables.kind != <level> || !(variables.named in <built-in>) && (object == null ||
object.spec.type != 'Exempt' && object.spec.?limited.?nominalConcurrencyShares.orValue(0) <= <shares> &&
object.spec.?limited.?limitResponse.?queuing.?queues.orValue(0) <= <queues>)`,
						"level", celText(keysOf(priorityLevelKind)[0]), "built-in", celList(priorityLevels...),
						"shares", fmt.Sprint(maxShares), "queues", fmt.Sprint(maxQueues)),
					message: "this priority level would leave too few concurrent requests to skr-agent and Kubernetes",
				}}
			},
		},
		{
			name:  "priority-class",
			check: checkPriorityClass,
			policies: func() []policyCheck {
				return []policyCheck{{
					policy: policyCluster,
					requests: []requestMatch{
						{[]string{priorityClassKind.group}, resourcesOf(priorityClassKind), changes, inCluster},
					},
					expression: celExpression(`
variables.kind != <class> || object == null || object.value < <limit> && !object.?globalDefault.orValue(false)`,
						"class", celText(keysOf(priorityClassKind)[0]), "limit", fmt.Sprint(agentPriority)),
					message: "this PriorityClass would let pods preempt skr-agent, " +
						"or change the priority of all pods without a class",
				}}
			},
		},
	}
}

// listAPIRules returns the rules for requests to the API server, storage drivers and the network.
func listAPIRules() []rule {
	return []rule{
		{name: "request-flow", check: checkFlowSchema, policies: flowPolicies},
		{name: "secret-reference", check: checkSecretReference, policies: storagePolicies},
		{
			name:              "sealed-secret",
			contentOnlyReason: "users who can create a Secret in a namespace can usually read the other Secrets there",
			check:             checkSealedSecret,
		},
		{name: "network", check: checkNetworkPolicy, policies: networkPolicies},
		{
			name: "redirection",
			contentOnlyReason: "only operators can create cluster-wide network objects, and the admission plugin " +
				"DenyServiceExternalIPs refuses external IPs for all users",
			check: checkRedirection,
		},
		{name: "kubernetes-api", check: checkKubernetesAPI, policies: apiPolicies},
	}
}

func bindingPolicies() []policyCheck {
	return []policyCheck{{
		policy: policyCluster, requests: rbacRequests,
		expression: celExpression(`
!(object != null && variables.kind in <bindings> &&
object.roleRef.name.matches(variables.own)) && !variables.subjects.exists(s,
s.kind == 'ServiceAccount' && s.?namespace.orValue('') == <home> && s.name.matches(variables.own) ||
s.name.matches('^<accounts><agent-names>$') ||
request.resource.resource == <cluster-bindings> && object.roleRef.name in <roles> &&
s.name in <everyone>)`,
			"bindings", celList(keysOf(roleBindingKind, clusterRoleBindingKind)...),
			"cluster-bindings", celText(clusterRoleBindingKind.resource),
			"roles", celList(powerfulRoles...), "everyone", celList(allAccounts...)),
		message: "this binding would change the permissions of skr-agent or grant them to other accounts",
	}}
}

func rolePolicies() []policyCheck {
	return []policyCheck{{
		policy: policyCluster, requests: rbacRequests,
		expression: celExpression(`
!variables.roleRules.exists(r, <operators> in r.?apiGroups.orValue([])) &&
!(variables.levels.exists(l, l.startsWith(<aggregate>)) &&
variables.roleRules.exists(r, r.?verbs.orValue([]).exists(v, !(v in <read>)) &&
('*' in r.?apiGroups.orValue([]) && r.?resources.orValue([]).exists(x, x in ['*', <agents>]) ||
r.?apiGroups.orValue([]).exists(g, g in ['*', <group>]) &&
r.?resources.orValue([]).exists(x, x in <resources>))))`,
			"operators", celText(operatorGroup), "agents", celText(operatorResource), "aggregate", celText(aggregationLabels),
			"read", celList(readVerbs...), "resources", celList(agentResources...)),
		message: "this role would make other accounts operators of skr-agent",
	}}
}

func flowPolicies() []policyCheck {
	return []policyCheck{{
		policy: policyCluster, requests: flowControlRequests,
		expression: celExpression(`
!variables.flows.exists(r, r.?subjects.orValue([]).exists(s,
s.?user.?name.orValue('').matches('^([*]|system:serviceaccount:kube-.*|<accounts><agent-names>)$') ||
s.?user.?name.orValue('').startsWith('system:') && !s.?user.?name.orValue('').startsWith('system:serviceaccount:') ||
s.?group.?name.orValue('').matches('^([*]|system:serviceaccounts:(kube-.*|<home-name>))$') ||
s.?group.?name.orValue('').startsWith('system:') && !s.?group.?name.orValue('').startsWith('system:serviceaccounts:') ||
s.?serviceAccount.?namespace.orValue('').startsWith(<kubernetes>) ||
s.?serviceAccount.?namespace.orValue('') == <home> &&
s.?serviceAccount.?name.orValue('').matches('^([*]|<agent-names>)$')))`,
			"kubernetes", celText(kubernetesNamespaces)),
		message: "this FlowSchema would select requests from skr-agent or Kubernetes",
	}}
}

func storagePolicies() []policyCheck {
	own := slices.DeleteFunc(slices.Clone(storageGroups), func(group string) bool { return group == storageGroup })
	return []policyCheck{{
		policy: policyCluster,
		requests: []requestMatch{
			{[]string{""}, []string{volumeKind.resource}, writes, inCluster},
			{[]string{storageGroup}, resourcesOf(storageKinds...), writes, inCluster},
			{own, []string{"*"}, writes, inCluster},
		},
		expression: celExpression(`
!variables.volume.exists(v,
[v.?csi.?controllerPublishSecretRef, v.?csi.?nodeStageSecretRef, v.?csi.?nodePublishSecretRef,
v.?csi.?controllerExpandSecretRef, v.?csi.?nodeExpandSecretRef, v.?cephfs.?secretRef, v.?rbd.?secretRef,
v.?flexVolume.?secretRef, v.?iscsi.?secretRef, v.?scaleIO.?secretRef, v.?storageos.?secretRef,
v.?cinder.?secretRef].exists(r,
r.hasValue() && r.value().?name.orValue('').matches(variables.own) &&
r.value().?namespace.orValue(v.?claimRef.?namespace.orValue(<home>)) == <home>) ||
v.?azureFile.?secretName.orValue('').matches(variables.own) &&
v.?azureFile.?secretNamespace.orValue(v.?claimRef.?namespace.orValue(<home>)) == <home>) &&
!variables.parameters.exists(all,
all.exists(p, p.matches(<namespace-pattern>) && (all[p] == <home> || all[p].contains('${'))) &&
all.exists(p, p.matches(<name-pattern>) && (all[p].matches(variables.own) ||
all[p].contains('${') && !(all[p] in <harmless>))))`,
			"namespace-pattern", celText(secretNamespacePattern.String()),
			"name-pattern", celText(secretNamePattern.String()),
			"harmless", celList(harmlessTemplates...)),
		message: "storage drivers may not read the Secrets of skr-agent",
	}}
}

// excludingSelector returns a CEL expression that is true if all selectors exclude the agent's namespace by a label.
func excludingSelector(selectors, label string) string {
	return celExpression(`
<selectors>.all(s, !(s.?matchLabels[?<label>].orValue(<home>) == <home>) ||
s.?matchExpressions.orValue([]).exists(e,
e.key == <label> && (e.operator == 'NotIn' && <home> in e.?values.orValue([]) ||
e.operator == 'In' && e.?values.orValue([]).size() > 0 && !(<home> in e.?values.orValue([])))))`,
		"selectors", selectors, "label", celText(label))
}

func networkPolicies() []policyCheck {
	return []policyCheck{
		{
			policy: policyHome,
			expression: celExpression(`
!(request.resource.group in <groups> && request.resource.resource == 'networkpolicies' &&
request.operation != 'DELETE') &&
!(request.resource.group == <cilium> && request.resource.resource == 'ciliumnetworkpolicies' &&
request.operation != 'DELETE' &&
([object.?spec].filter(s, s.hasValue()).map(s, s.value()) + object.?specs.orValue([]))
.exists(s, has(s.egressDeny) || has(s.ingressDeny)))`,
				"groups", celList(append(slices.Clone(calicoGroups), antreaGroup)...), "cilium", celText(ciliumGroup)),
			message: "use a Kubernetes NetworkPolicy, because a policy of this kind could block the connections of skr-agent",
		},
		{
			policy: policyCluster,
			requests: []requestMatch{
				{[]string{adminPolicyGroup}, []string{"*"}, writes, inCluster},
				{[]string{antreaGroup}, []string{"clusternetworkpolicies"}, writes, inCluster},
			},
			comment: "A policy must exclude the namespace by its name label, because any other label can be added to the " +
				"namespace later.",
			expression: excludingSelector("variables.selectors", labelNamespaceName),
			message: "exclude " + labelNamespaceName + "=" + v1beta2.RuntimeNamespace + " in the namespace selectors, because " +
				"this policy could block the connections of skr-agent",
		},
		{
			policy: policyCluster,
			requests: []requestMatch{
				{[]string{ciliumGroup}, []string{"ciliumclusterwidenetworkpolicies"}, writes, inCluster},
			},
			expression: excludingSelector("variables.endpointSelectors", ciliumNamespace),
			message: "exclude " + ciliumNamespace + "=" + v1beta2.RuntimeNamespace + " in each endpointSelector, because this " +
				"policy could block the connections of skr-agent",
		},
		{
			policy:   policyCluster,
			requests: []requestMatch{{calicoGroups, []string{"globalnetworkpolicies"}, writes, inCluster}},
			expression: celExpression(`
request.resource.resource != 'globalnetworkpolicies' || object == null ||
object.?spec.?namespaceSelector.orValue('').matches('^ *<labels> != [\'\"]<home-name>[\'\"] *$')`,
				"labels", celAny(calicoNamespaces...)),
			message: "set spec.namespaceSelector: " + calicoNamespaces[0] + " != '" + v1beta2.RuntimeNamespace + "', because " +
				"this policy could block the connections of skr-agent",
		},
	}
}

func apiPolicies() []policyCheck {
	var served []string
	for _, group := range kubernetesGroups {
		if strings.Contains(group, ".") {
			served = append(served, group)
		}
	}
	return []policyCheck{
		{
			policy: policyCluster, requests: []requestMatch{apiServiceRequests},
			expression: celExpression(`
request.resource.resource != <apiservices> ||
variables.named.substring(variables.named.indexOf('.') + 1).contains('.') &&
!(variables.named.substring(variables.named.indexOf('.') + 1) in <groups>)`,
				"apiservices", celText(apiServiceKind.resource), "groups", celList(served...)),
			message: "Kubernetes serves this API group itself",
		},
		{
			policy: policyCluster,
			requests: []requestMatch{
				{[]string{"", "discovery.k8s.io"}, resourcesOf(addressKinds...), changes, inAnyNamespace},
			},
			expression: celExpression(`
!(request.resource.resource in <resources> && request.?namespace.orValue('') == 'default' &&
(variables.named == <service> || variables.levels[?<label>].orValue('') == <service>))`,
				"resources", celList(resourcesOf(addressKinds...)...), "service", celText(apiServerService),
				"label", celText(labelServiceName)),
			message: "this object contains the address of the API server for all pods",
		},
	}
}
