package guard

import (
	"slices"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

var (
	crdRequests        = requestMatch{[]string{crdKind.group}, []string{crdKind.resource}, changes, inCluster}
	apiServiceRequests = requestMatch{
		[]string{apiServiceKind.group}, []string{apiServiceKind.resource}, changes, inCluster,
	}
	namespaceRequests = requestMatch{[]string{""}, []string{namespaceKind.resource}, changes, inCluster}
)

// sharedRequests selects writes to namespaces, including subresources that change finalizers.
var sharedRequests = []requestMatch{
	namespaceRequests,
	{[]string{""}, []string{"namespaces/status", "namespaces/finalize"}, []string{"UPDATE"}, inCluster},
}

// listObjectRules returns the rules for the agent's own objects, and for namespaces that modules share.
func listObjectRules() []rule {
	return []rule{
		{
			name:              "agent-kind",
			contentOnlyReason: "tenants may edit the runtime's Kyma, and ModuleTemplates without the catalog's label",
			check:             checkByKey(checkAgentKind),
			policies: func() []policyCheck {
				return []policyCheck{
					{
						policy:     policyHome,
						expression: celExpression(`!(request.resource.group == <group> && request.resource.resource == 'manifests')`),
						message:    "only skr-agent can write Manifests, based on the runtime's bundle",
					},
					{
						policy: policyHome,
						expression: celExpression(`
!(request.resource.group == <group> && request.resource.resource == 'kymas' && variables.subresource == 'status')`),
						message: "only skr-agent writes the status of a Kyma",
					},
					{
						policy: policyHome,
						expression: celExpression(`
!(request.resource.group == <group> && request.resource.resource in ['moduletemplates', 'modulereleasemetas'] &&
[object, oldObject].exists(o, o != null && o.metadata.?labels[?<managed-by>].orValue('') == <kyma>))`,
							"managed-by", celText(v1beta2.LabelManagedBy), "kyma", celText(v1beta2.ManagedByKyma)),
						message: "only skr-agent writes the module catalog, from the runtime's bundle",
					},
				}
			},
		},
		{
			name:  "agent-definition",
			check: checkByKey(checkAgentCRD),
			policies: func() []policyCheck {
				return []policyCheck{{
					policy: policyCluster,
					requests: []requestMatch{
						crdRequests,
						{[]string{crdKind.group}, []string{crdKind.resource + "/status"}, []string{"UPDATE"}, inCluster},
					},
					expression: celExpression(`
!(request.resource.resource == <crds> && variables.named in <plurals>.map(p, p + '.' + <group>))`,
						"crds", celText(crdKind.resource), "plurals", celList(agentPlurals()...)),
					message: "only operators change the CRDs of skr-agent",
				}}
			},
		},
		{
			name:              "built-in-definition",
			contentOnlyReason: "the API server refuses CRDs with a wrong name, and tenants cannot create CRDs",
			check:             checkCRD,
		},
		{
			name:  "agent-api",
			check: checkByKey(checkAgentAPI),
			policies: func() []policyCheck {
				return []policyCheck{{
					policy: policyCluster,
					requests: []requestMatch{
						apiServiceRequests,
						{[]string{apiServiceKind.group}, []string{apiServiceKind.resource + "/status"}, []string{"UPDATE"}, inCluster},
					},
					expression: celExpression(`
!(request.resource.resource == <apiservices> && variables.named.endsWith('.' + <group>))`,
						"apiservices", celText(apiServiceKind.resource)),
					message: "only operators change the API group of skr-agent",
				}}
			},
		},
		{
			name:  "trusted-ca",
			check: checkByKey(checkTrustedCA),
			policies: func() []policyCheck {
				return []policyCheck{{
					policy: policyHome,
					expression: celExpression(`!(<requested> && variables.named == <ca>)`,
						"requested", configMapKind.requested(), "ca", celText(trustedCA)),
					message: "only Kubernetes writes this ConfigMap, which contains the CA that skr-agent trusts for " +
						"the API server",
				}}
			},
		},
		{
			name:  "agent-object",
			check: checkByKey(checkAgentObject),
			policies: func() []policyCheck {
				const message = "request.resource.resource + ' ' + variables.named + ' belongs to skr-agent'"
				return []policyCheck{
					{
						policy: policyHome, message: message, isMessageExpression: true,
						expression: celExpression(`!variables.named.matches(variables.own)`),
					},
					{
						policy: policyCluster, message: message, isMessageExpression: true,
						expression: celExpression(`
!(request.?namespace.orValue('') in ['', <home>] && variables.named.matches(variables.own))`),
					},
				}
			},
		},
		{
			name: "owner",
			contentOnlyReason: "Kubernetes and tenants set owners of their own objects; the policies check only shared " +
				"namespaces",
			check: checkOwnerReferences,
		},
		{name: "shared-namespace", check: checkSharedNamespace, policies: sharedNamespacePolicies},
		{
			name:              "shared-namespace-spec",
			contentOnlyReason: "the API server ignores spec in updates of a namespace",
			check:             checkSharedSpec,
		},
		{
			name:             "namespace-deletion",
			policyOnlyReason: "content has no deletions, and the agent never deletes a shared namespace",
			policies: func() []policyCheck {
				return []policyCheck{{
					policy: policyCluster, requests: []requestMatch{namespaceRequests},
					expression: celExpression(`
!(request.resource.resource == <namespaces> && variables.named == <home> && request.operation == 'DELETE')`,
						"namespaces", celText(namespaceKind.resource)),
					message: "skr-agent runs in this namespace",
				}}
			},
		},
	}
}

func sharedNamespacePolicies() []policyCheck {
	return []policyCheck{
		{
			policy: policyCluster, requests: sharedRequests,
			expression: celExpression(`
!variables.shared ||
[variables.levels, variables.levelsBefore].all(one, [variables.levels, variables.levelsBefore].all(other,
one.all(l, !l.startsWith(<pod-security>) || other[?l].orValue('') == one[l])))`,
				"pod-security", celText(podSecurityLabels)),
			message: "only operators change the pod security of this namespace",
		},
		{
			policy: policyCluster, requests: sharedRequests,
			expression: celExpression(`
!variables.shared ||
variables.levels[?<mode>].orValue(<none>) in [<none>, variables.levelsBefore[?<mode>].orValue(<none>)]`,
				"mode", celText(labelDataplaneMode), "none", celText(dataplaneNone)),
			message: "this label would route the traffic between the pods of all modules and the API server through a proxy",
		},
		{
			policy: policyCluster, requests: sharedRequests,
			comment: "Garbage collection would delete a namespace whose owner does not exist. A finalizer would block its " +
				"deletion.",
			expression: celExpression(`
!variables.shared ||
object.metadata.?ownerReferences.orValue([]) ==
(oldObject == null ? [] : oldObject.metadata.?ownerReferences.orValue([])) &&
object.metadata.?finalizers.orValue([]) == (oldObject == null ? [] : oldObject.metadata.?finalizers.orValue([]))`),
			message: "only operators change owners and finalizers of this namespace",
		},
		{
			policy: policyCluster, requests: sharedRequests,
			expression: celExpression(`
!variables.shared || <annotations>.all(a,
object.metadata.?annotations[?a].orValue('') ==
(oldObject == null ? '' : oldObject.metadata.?annotations[?a].orValue('')))`,
				"annotations", celList(nodeAnnotations...)),
			message: "only operators select the nodes for the pods of this namespace",
		},
	}
}

// agentPlurals returns the plural names of the agent's kinds, sorted.
func agentPlurals() []string {
	var all []string
	for _, plural := range agentKinds {
		all = append(all, plural)
	}
	slices.Sort(all)
	return all
}
