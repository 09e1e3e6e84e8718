package guard

import "testing"

func TestModulesCannotChangeTheAgent(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"Kyma of the runtime": {
			"apiVersion: operator.kyma-project.io/v1beta2\nkind: Kyma\nmetadata: {name: default, namespace: " +
				"kyma-system}", "Kyma kyma-system/default: objects of this kind control the agent",
		},
		"Manifest in an older API version": {
			"apiVersion: operator.kyma-project.io/v1beta1\nkind: Manifest\nmetadata: {name: x, namespace: kyma-system}",
			"Manifest kyma-system/x: objects of this kind control the agent",
		},
		"ModuleTemplate in another namespace": {
			"apiVersion: operator.kyma-project.io/v1beta2\nkind: ModuleTemplate\nmetadata: {name: x, namespace: other}",
			"ModuleTemplate other/x: objects of this kind control the agent",
		},
		"module CR in the agent's API group": {
			"apiVersion: operator.kyma-project.io/v1alpha1\nkind: Keda\nmetadata: {name: default, namespace: " +
				"kyma-system}", "",
		},
		"CRD of Manifests": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
				"manifests.operator.kyma-project.io}", "defines a kind that controls the agent",
		},
		"CRD of a module CR": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
				"kedas.operator.kyma-project.io}\nspec: {group: operator.kyma-project.io, names: {kind: Keda, plural: kedas}}",
			"",
		},
		"CRD with the kind of the agent's CRD": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
				"bees.operator.kyma-project.io}\nspec: {group: operator.kyma-project.io, names: {kind: Kyma, plural: bees}}",
			"claims a name of a kind that controls the agent",
		},
		"CRD with a short name of the agent's CRD": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
				"bees.operator.kyma-project.io}\nspec: {group: operator.kyma-project.io, names: {kind: Bee, plural: bees, " +
				"shortNames: [kymas]}}",
			"claims a name of a kind that controls the agent",
		},
		"CRD of a built-in kind": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: deployments.apps}\n" +
				"spec: {group: apps, names: {kind: Deployment, plural: deployments}}", `built-in API group "apps"`,
		},
		"CRD in the core group": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: configmaps.}\n" +
				"spec: {names: {kind: ConfigMap, plural: configmaps}}", `built-in API group ""`,
		},
		"CRD whose name does not match its plural": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
				"others.example.com}\nspec: {group: example.com, names: {kind: Mine, plural: mines}}",
			"must be its plural and its group, mines.example.com",
		},
		"APIService for the agent's API group": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: " +
				"v1beta2.operator.kyma-project.io}", "would serve the API that controls the agent",
		},
		"Secret with the agent's key": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-key, namespace: kyma-system}",
			"Secret kyma-system/skr-agent-key: the name is reserved for the agent: remove it from the module",
		},
		"Secret with stored content": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: kyma-pull-content-sha256-00, namespace: kyma-system}",
			"the name is reserved for the agent",
		},
		"Deployment of the agent": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: skr-agent, namespace: kyma-system}",
			"the name is reserved for the agent",
		},
		"ServiceAccount of the agent": {
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: skr-agent, namespace: kyma-system}",
			"the name is reserved for the agent",
		},
		"Lease of the agent": {
			"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: skr-agent.kyma-pull.dev, namespace: " +
				"kyma-system}", "the name is reserved for the agent",
		},
		"ClusterRole of the agent": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: skr-agent}",
			"ClusterRole skr-agent: the name is reserved for the agent",
		},
		"admission policy of the agent": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " +
				"skr-agent-protection}", "the name is reserved for the agent",
		},
		"ConfigMap with the API server's CA": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: kyma-system}",
			"ConfigMap kyma-system/kube-root-ca.crt: this ConfigMap determines which API server",
		},
		"ConfigMap kube-root-ca.crt in another namespace": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: other}", "",
		},
		"Secret with a reserved name in another namespace": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-key, namespace: other}", "",
		},
		"Secret whose name only starts like a reserved name": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agents, namespace: kyma-system}", "",
		},

		"pod security label on the agent's namespace": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: " +
				"{pod-security.kubernetes.io/enforce: privileged}}",
			"Namespace kyma-system: label pod-security.kubernetes.io/enforce",
		},
		"pod security label on kube-system": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system, labels: " +
				"{pod-security.kubernetes.io/enforce-version: v1.0}}",
			"label pod-security.kubernetes.io/enforce-version",
		},
		"pod security label on the module's namespace": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: mine, labels: {pod-security.kubernetes.io/enforce: " +
				"privileged}}", "",
		},
		"unrelated label on a shared namespace": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {a: b}}", "",
		},

		"Deployment that runs as the agent": {
			workload("kyma-system", "skr-agent"),
			"Deployment kyma-system/x: spec.template.spec.serviceAccountName would run its pods as the agent",
		},
		"Pod that runs as the agent": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kyma-system}\nspec: {serviceAccount: skr-agent}",
			"spec.serviceAccount would run",
		},
		"CronJob that runs as the agent": {
			"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x, namespace: kyma-system}\nspec: {jobTemplate: " +
				"{spec: {template: {spec: {serviceAccountName: skr-agent}}}}}",
			"spec.jobTemplate.spec.template.spec.serviceAccountName",
		},
		"Deployment with its own ServiceAccount":        {workload("kyma-system", "keda"), ""},
		"ServiceAccount skr-agent in another namespace": {workload("other", "skr-agent"), ""},
		"token Secret for the agent's ServiceAccount": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: kyma-system, annotations: " +
				"{kubernetes.io/service-account.name: skr-agent}}\ntype: kubernetes.io/service-account-token",
			"this Secret would contain a token of the agent's ServiceAccount",
		},

		"agent's key in a Secret volume": {
			pod("volumes: [{name: v, secret: {secretName: skr-agent-key}}]"),
			"Deployment kyma-system/x: spec.template.spec would give its pods access to Secret skr-agent-key of the " +
				"agent",
		},
		"agent's key in a projected volume": {
			pod("volumes: [{name: v, projected: {sources: [{configMap: {name: a}}, {secret: {name: skr-agent-key}}]}}]"), "Secret skr-agent-key of the agent",
		},
		"agent's Secret in envFrom": {
			pod("initContainers: [{name: a, envFrom: [{secretRef: {name: skr-agent-bootstrap}}]}]"),
			"Secret skr-agent-bootstrap of the agent",
		},
		"agent's key in an environment variable": {
			pod("containers: [{name: a, env: [{name: A, value: b}, {name: B, valueFrom: {secretKeyRef: {name: " +
				"skr-agent-key, key: agent.key}}}]}]"), "Secret skr-agent-key of the agent",
		},
		"volume with the module's own Secret": {pod("volumes: [{name: v, secret: {secretName: mine}}]"), ""},
		"agent's Secret in imagePullSecrets of a pod template": {
			pod("imagePullSecrets: [{name: mine}, {name: skr-agent-bootstrap}]"),
			"Secret skr-agent-bootstrap of the agent",
		},
		"agent's Secret in imagePullSecrets of a ServiceAccount": {
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: kyma-system}\nimagePullSecrets: " +
				"[{name: skr-agent-bootstrap}]",
			"ServiceAccount kyma-system/x: imagePullSecrets would give its pods access to Secret skr-agent-bootstrap",
		},
		"ServiceAccount with the module's own Secret": {
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: kyma-system}\nimagePullSecrets: " +
				"[{name: mine}]", "",
		},
		"agent's key in a CSI volume": {
			pod("volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: skr-agent-key}}}]"),
			"Secret skr-agent-key of the agent",
		},
		"custom resource whose field volumes is not a list": {
			"apiVersion: example.org/v1\nkind: X\nmetadata: {name: x, namespace: kyma-system}\nspec: {volumes: " +
				"{skr-agent-key: 1}}", "",
		},

		"Pod with the agent's label": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kyma-system, labels: {app.kubernetes.io/name: " +
				"skr-agent}}",
			"Pod kyma-system/x: metadata.labels: label app.kubernetes.io/name=skr-agent would make its pods look " +
				"like the agent's",
		},
		"ReplicaSet with the agent's label": {
			"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: x, namespace: kyma-system, labels: " +
				"{app.kubernetes.io/name: skr-agent}}", "ReplicaSet kyma-system/x: metadata.labels",
		},
		"Deployment whose pods have the agent's label": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, namespace: kyma-system}\nspec: {template: " +
				"{metadata: {labels: {app.kubernetes.io/name: skr-agent}}}}",
			"spec.template.metadata.labels: label app.kubernetes.io/name=skr-agent",
		},
		"CronJob whose pods have the agent's label": {
			"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x, namespace: kyma-system}\nspec: {jobTemplate: " +
				"{spec: {template: {metadata: {labels: {app.kubernetes.io/name: skr-agent}}}}}}",
			"spec.jobTemplate.spec.template.metadata.labels",
		},
		"Pod with the agent's label in another namespace": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: other, labels: {app.kubernetes.io/name: " +
				"skr-agent}}", "",
		},
		"ConfigMap with the agent's label": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: kyma-system, labels: " +
				"{app.kubernetes.io/name: skr-agent}}", "",
		},
		"Pod with another name in the agent's label": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kyma-system, labels: {app.kubernetes.io/name: " +
				"keda}}", "",
		},
		"ControllerRevision with a pod template": {
			"apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: x, namespace: kyma-system}\ndata: " +
				"{spec: {template: {spec: {ServiceAccountName: skr-agent}}}}",
			"ControllerRevision kyma-system/x: only Kubernetes writes ControllerRevisions",
		},
		"ControllerRevision without a pod template": {
			"apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: x, namespace: kyma-system}\ndata: " +
				"{spec: {replicas: 1}}", "",
		},
		"ConfigMap with key spec": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: kyma-system}\ndata: {spec: text}", "",
		},
		"HorizontalPodAutoscaler for the agent": {
			"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x, namespace: " +
				"kyma-system}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: skr-agent}}",
			"HorizontalPodAutoscaler kyma-system/x: spec.scaleTargetRef.name would scale the agent",
		},
		"VerticalPodAutoscaler for the agent": {
			"apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: x, namespace: " +
				"kyma-system}\nspec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: skr-agent}}",
			"VerticalPodAutoscaler kyma-system/x: spec.targetRef.name would scale the agent",
		},
		"HorizontalPodAutoscaler for the module's Deployment": {
			"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x, namespace: " +
				"kyma-system}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: keda}}", "",
		},
		"HorizontalPodAutoscaler for skr-agent in another namespace": {
			"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x, namespace: other}\nspec: " +
				"{scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: skr-agent}}", "",
		},
		"custom resource with fields targetRef and scaleTargetRef": {
			"apiVersion: example.org/v1\nkind: X\nmetadata: {name: x, namespace: kyma-system}\nspec: {targetRef: " +
				"skr-agent, scaleTargetRef: {name: skr-agent}}", "",
		},

		"binding that grants the agent's role to another user": {
			binding("skr-agent", "{kind: User, name: b}"),
			"ClusterRoleBinding x: roleRef.name would grant role skr-agent",
		},
		"binding that grants permissions to the agent's ServiceAccount": {
			binding("view", "{kind: ServiceAccount, name: skr-agent, namespace: kyma-system}"),
			"subjects[1] changes the permissions of the agent",
		},
		"binding that grants permissions to the agent's user name": {
			binding("view", "{kind: User, name: 'system:serviceaccount:kyma-system:skr-agent'}"),
			"subjects[1] changes the permissions",
		},
		"binding for the module's ServiceAccount": {
			binding("view", "{kind: ServiceAccount, name: keda, namespace: kyma-system}"), "",
		},

		"webhook for all resources": {
			webhook("MutatingWebhookConfiguration", everything, ""),
			"MutatingWebhookConfiguration nosy: webhooks[1] would intercept",
		},
		"webhook for all resources outside the agent's namespace": {
			webhook("MutatingWebhookConfiguration", everything, elsewhere), "",
		},
		"webhook for Secrets": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}", ""),
			"webhooks[1] would intercept secrets of the agent: exclude kubernetes.io/metadata.name=kyma-system in " +
				"namespaceSelector",
		},
		"webhook for Secrets with a label of the module": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  objectSelector: {matchLabels: {mine: 'yes'}}\n"), "",
		},
		"webhook for Secrets with stored content": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  objectSelector: {matchLabels: {kyma-pull.dev/content: index}}\n"), "would intercept secrets",
		},
		"webhook for the status of Manifests": {
			webhook("ValidatingWebhookConfiguration",
				"{apiGroups: [operator.kyma-project.io], resources: [manifests/status]}", ""),
			"would intercept manifests",
		},
		"webhook for module CRs": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [operator.kyma-project.io], resources: [kedas]}",
				""), "",
		},
		"webhook with a namespace label that the module sets": {
			webhook("MutatingWebhookConfiguration", "{apiGroups: [''], resources: [pods]}",
				"  namespaceSelector: {matchLabels: {inject: 'yes'}}\n") +
				"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {inject: 'yes'}}",
			"would intercept pods of the agent",
		},
		"webhook with a namespace label that is not set": {
			webhook("MutatingWebhookConfiguration", "{apiGroups: [''], resources: [pods]}",
				"  namespaceSelector: {matchLabels: {inject: 'yes'}}\n"), "would intercept pods of the agent",
		},
		"admission policy for Leases": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " +
				"x}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [coordination.k8s.io], resources: " +
				"[leases]}]}}",
			"ValidatingAdmissionPolicy x: spec.matchConstraints would intercept leases"},
		"webhook for all resources in the module's namespace": {
			webhook("ValidatingWebhookConfiguration", everything,
				"  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: mine}}\n"), "",
		},
		"webhook that excludes another namespace": {
			webhook("ValidatingWebhookConfiguration", everything,
				"  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, "+
					"values: [kube-system]}]}\n"), "would intercept deployments of the agent",
		},
		"webhook that excludes namespaces by another label": {
			webhook("ValidatingWebhookConfiguration", everything,
				"  namespaceSelector: {matchExpressions: [{key: no-webhooks, operator: DoesNotExist}]}\n"),
			"would intercept",
		},
		"webhook with failurePolicy Ignore": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  failurePolicy: Ignore\n"), "would intercept secrets",
		},
		"webhook for pods/exec and pods/attach": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [pods/exec, pods/attach]}", ""), "",
		},
		"webhook for CONNECT requests": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: ['*'], resources: ['*/*'], operations: [CONNECT]}",
				""), "",
		},
		"webhook for pods/binding": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [pods/binding]}",
				"  objectSelector: {matchExpressions: [{key: app.kubernetes.io/name, operator: DoesNotExist}]}\n"),
			"would intercept pods/binding",
		},
		"webhook for namespaces": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [namespaces]}", ""),
			"would intercept namespaces",
		},
		"webhook for namespaces except the agent's": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [namespaces]}", elsewhere), "",
		},
		"webhook for all kinds in group apiextensions.k8s.io": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [apiextensions.k8s.io], resources: ['*']}",
				elsewhere),
			"would intercept customresourcedefinitions of the agent, and no namespaceSelector can exclude them: " +
				"exclude group apiextensions.k8s.io in the rules",
		},
		"webhook for CRDs with a group wildcard": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: ['*'], resources: [customresourcedefinitions]}",
				elsewhere), "would intercept customresourcedefinitions",
		},
		"webhook for namespaced kinds in group apiextensions.k8s.io": {
			webhook("ValidatingWebhookConfiguration",
				"{apiGroups: [apiextensions.k8s.io], resources: ['*'], scope: Namespaced}", ""), "",
		},
		"webhook for Secrets with scope Cluster": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets], scope: Cluster}", ""),
			"",
		},
		"webhook for Manifests with a label": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [operator.kyma-project.io], resources: [manifests]}",
				"  objectSelector: {matchLabels: {a: b}}\n"), "would intercept manifests",
		},
		"webhook for pods with a label that the chart sets": {
			webhook("MutatingWebhookConfiguration", "{apiGroups: [''], resources: [pods]}",
				"  objectSelector: {matchLabels: {app.kubernetes.io/instance: any}}\n"), "would intercept pods",
		},
		"webhook for pods like Istio's": {
			webhook("MutatingWebhookConfiguration", "{apiGroups: [''], resources: [pods]}",
				"  objectSelector: {matchExpressions: [{key: sidecar.istio.io/inject, operator: NotIn, values: "+
					"['false']}]}\n"), "",
		},
		"webhook with a match condition that excludes the agent's namespace": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  matchConditions: [{name: a, expression: \"request.namespace != 'kyma-system'\"}]\n"), "",
		},
		"webhook with a match condition that excludes a different name": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  matchConditions: [{name: a, expression: \"request.namespace != 'kyma -system'\"}]\n"),
			"would intercept secrets",
		},
		"webhook for access reviews": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [authorization.k8s.io], resources: ['*']}", ""),
			"would intercept selfsubjectaccessreviews",
		},
		"webhook with a match condition that is always true": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  matchConditions: [{name: a, expression: \"request.namespace != 'kyma-system' || true\"}]\n"),
			"would intercept secrets",
		},
		"admission policy with a match condition that excludes the agent's namespace": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " +
				"x}\nspec: {matchConditions: [{name: a, expression: \"!has(request.namespace) || request.namespace " +
				"!= 'kyma-system'\"}], matchConstraints: {resourceRules: [{apiGroups: ['*'], resources: ['*']}]}}", "",
		},
		"binding of an admission policy outside the module": {
			binds("other", ""), "ValidatingAdmissionPolicyBinding x: spec.matchResources would intercept",
		},
		"binding of an admission policy for another namespace": {
			binds("other", ", matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: mine}}}"),
			"",
		},
		"binding of the module's own admission policy": {
			binds("own", "") +
				"\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: " +
				"{name: own}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [example.org], resources: ['*']}]}}", "",
		},
		"mutating admission policy for Pods": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: x}\nspec: " +
				"{matchConstraints: {resourceRules: [{apiGroups: [''], resources: [pods]}]}}",
			"MutatingAdmissionPolicy x: spec.matchConstraints would intercept pods",
		},

		"ResourceQuota in the agent's namespace": {
			"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: x, namespace: kyma-system}\nspec: {hard: {pods: " +
				"'0'}}", "ResourceQuota kyma-system/x: this object would limit the agent's pods and objects",
		},
		"ResourceQuota in the module's namespace": {
			"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: x, namespace: mine}", "",
		},
		"LimitRange in the agent's namespace": {
			"apiVersion: v1\nkind: LimitRange\nmetadata: {name: x, namespace: kyma-system}",
			"LimitRange kyma-system/x: this object would limit",
		},
		"FlowSchema for the agent's ServiceAccount": {
			flow("{kind: ServiceAccount, serviceAccount: {namespace: kyma-system, name: skr-agent}}"),
			"FlowSchema x: spec.rules[0].subjects[1] would select requests from the agent or Kubernetes",
		},
		"FlowSchema for all ServiceAccounts in the agent's namespace": {
			flow("{kind: ServiceAccount, serviceAccount: {namespace: kyma-system, name: '*'}}"),
			"would select requests",
		},
		"FlowSchema for the agent's user name": {
			flow("{kind: User, user: {name: 'system:serviceaccount:kyma-system:skr-agent'}}"), "would select requests",
		},
		"FlowSchema for all users": {flow("{kind: User, user: {name: '*'}}"), "would select requests"},
		"FlowSchema for group system:serviceaccounts": {
			flow("{kind: Group, group: {name: 'system:serviceaccounts'}}"), "would select requests",
		},
		"FlowSchema for group system:authenticated": {
			flow("{kind: Group, group: {name: 'system:authenticated'}}"), "would select requests",
		},
		"FlowSchema for the module's ServiceAccount": {
			flow("{kind: ServiceAccount, serviceAccount: {namespace: kyma-system, name: keda}}"), "",
		},
		"built-in priority level": {
			"apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: PriorityLevelConfiguration\nmetadata: {name: " +
				"workload-low}", "is a built-in priority level",
		},
		"priority level of the module": {
			"apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: PriorityLevelConfiguration\nmetadata: {name: keda}", "",
		},
		"APIService for the core group": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.}",
			"would serve the built-in API group \"\"",
		},
		"APIService for group apps": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v2.apps}",
			"would serve the built-in API group \"apps\"",
		},
		"APIService for group coordination.k8s.io": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1beta9.coordination.k8s.io}",
			"would serve the built-in API group",
		},
		"APIService for external metrics": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1beta1.external.metrics.k8s.io}", "",
		},
		"Service of the API server": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: kubernetes, namespace: default}",
			"Service default/kubernetes: this object defines the address of the API server for the whole cluster",
		},
		"Endpoints of the API server": {
			"apiVersion: v1\nkind: Endpoints\nmetadata: {name: kubernetes, namespace: default}",
			"this object defines the address of the API server",
		},
		"EndpointSlice of the API server": {
			"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: more, namespace: default, " +
				"labels: {kubernetes.io/service-name: kubernetes}}", "this object defines the address of the API server",
		},
		"Service kubernetes in another namespace": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: kubernetes, namespace: mine}", "",
		},

		"webhook with an invalid field": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: " +
				"x}\nwebhooks: [{rules: all}]", "webhooks[0] cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) { checkContent(t, c.yaml, c.want) })
	}
}
