package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModulesCannotChangeTheAgent(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"the runtime's Kyma": {
			"apiVersion: operator.kyma-project.io/v1beta2\nkind: Kyma\nmetadata: {name: default, namespace: " +
				"kyma-system}", "Kyma kyma-system/default: controls the agent",
		},
		"a Manifest in an older version": {
			"apiVersion: operator.kyma-project.io/v1beta1\nkind: Manifest\nmetadata: {name: x, namespace: kyma-system}",
			"Manifest kyma-system/x: controls the agent",
		},
		"a ModuleTemplate elsewhere": {
			"apiVersion: operator.kyma-project.io/v1beta2\nkind: ModuleTemplate\nmetadata: {name: x, namespace: other}",
			"ModuleTemplate other/x: controls the agent",
		},
		"a module CR of Kyma's group": {
			"apiVersion: operator.kyma-project.io/v1alpha1\nkind: Keda\nmetadata: {name: default, namespace: " +
				"kyma-system}", "",
		},
		"the definition of Manifests": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
				"manifests.operator.kyma-project.io}", "defines objects that control the agent",
		},
		"the definition of a module's CR": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
				"kedas.operator.kyma-project.io}", "",
		},
		"a server for the agent's group": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: " +
				"v1beta2.operator.kyma-project.io}", "would serve objects that control the agent",
		},
		"the agent's key": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-key, namespace: kyma-system}",
			"Secret kyma-system/skr-agent-key: has a name that is reserved for the agent: remove it from the module",
		},
		"stored content": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: kyma-pull-content-sha256-00, namespace: kyma-system}",
			"has a name that is reserved for the agent",
		},
		"the agent's Deployment": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: skr-agent, namespace: kyma-system}",
			"has a name that is reserved for the agent",
		},
		"the agent's ServiceAccount": {
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: skr-agent, namespace: kyma-system}",
			"has a name that is reserved for the agent",
		},
		"the agent's lease": {
			"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: skr-agent.kyma-pull.dev, namespace: " +
				"kyma-system}", "has a name that is reserved for the agent",
		},
		"the agent's ClusterRole": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: skr-agent}",
			"ClusterRole skr-agent: has a name that is reserved for the agent",
		},
		"the agent's admission policy": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " +
				"skr-agent-protection}", "has a name that is reserved for the agent",
		},
		"the API server's certificates": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: kyma-system}",
			"ConfigMap kyma-system/kube-root-ca.crt: sets the API server",
		},
		"the same in another namespace": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: other}", "",
		},
		"such a name in another namespace": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-key, namespace: other}", "",
		},
		"a name that only begins alike": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agents, namespace: kyma-system}", "",
		},

		"pod security of the agent's namespace": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: " +
				"{pod-security.kubernetes.io/enforce: privileged}}",
			"Namespace kyma-system: label pod-security.kubernetes.io/enforce",
		},
		"pod security of kube-system": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system, labels: " +
				"{pod-security.kubernetes.io/enforce-version: v1.0}}",
			"label pod-security.kubernetes.io/enforce-version",
		},
		"pod security of the module's own": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: mine, labels: {pod-security.kubernetes.io/enforce: " +
				"privileged}}", "",
		},
		"another label of a shared namespace": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {a: b}}", "",
		},

		"a workload that runs as the agent": {
			workload("kyma-system", "skr-agent"),
			"Deployment kyma-system/x: spec.template.spec.serviceAccountName would make its pods the agent",
		},
		"a Pod that runs as the agent": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kyma-system}\nspec: {serviceAccount: skr-agent}",
			"spec.serviceAccount would make",
		},
		"a CronJob that runs as the agent": {
			"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x, namespace: kyma-system}\nspec: {jobTemplate: " +
				"{spec: {template: {spec: {serviceAccountName: skr-agent}}}}}",
			"spec.jobTemplate.spec.template.spec.serviceAccountName",
		},
		"a workload with an account its own": {workload("kyma-system", "keda"), ""},
		"an account of that name elsewhere":  {workload("other", "skr-agent"), ""},
		"a token of the agent": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: kyma-system, annotations: " +
				"{kubernetes.io/service-account.name: skr-agent}}\ntype: kubernetes.io/service-account-token",
			"requests a token of the agent's ServiceAccount",
		},

		"the agent's key as files": {
			pod("volumes: [{name: v, secret: {secretName: skr-agent-key}}]"),
			"Deployment kyma-system/x: spec.template.spec would give its pods Secret skr-agent-key of the agent",
		},
		"the agent's key among other files": {
			pod("volumes: [{name: v, projected: {sources: [{configMap: {name: a}}, {secret: {name: skr-agent-key}}]}}]"), "Secret skr-agent-key of the agent",
		},
		"the agent's Secret as variables": {
			pod("initContainers: [{name: a, envFrom: [{secretRef: {name: skr-agent-bootstrap}}]}]"),
			"Secret skr-agent-bootstrap of the agent",
		},
		"the agent's key as a variable": {
			pod("containers: [{name: a, env: [{name: A, value: b}, {name: B, valueFrom: {secretKeyRef: {name: " +
				"skr-agent-key, key: agent.key}}}]}]"), "Secret skr-agent-key of the agent",
		},
		"a Secret of the module's own": {pod("volumes: [{name: v, secret: {secretName: mine}}]"), ""},
		"the agent's Secret to pull images": {
			pod("imagePullSecrets: [{name: mine}, {name: skr-agent-bootstrap}]"),
			"Secret skr-agent-bootstrap of the agent",
		},
		"the same for an account's pods": {
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: kyma-system}\nimagePullSecrets: " +
				"[{name: skr-agent-bootstrap}]",
			"ServiceAccount kyma-system/x: imagePullSecrets would give its pods Secret skr-agent-bootstrap",
		},
		"an account with a Secret of its own": {
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: kyma-system}\nimagePullSecrets: " +
				"[{name: mine}]", "",
		},
		"the agent's key for a driver": {
			pod("volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: skr-agent-key}}}]"),
			"Secret skr-agent-key of the agent",
		},
		"a custom resource with another shape": {
			"apiVersion: example.org/v1\nkind: X\nmetadata: {name: x, namespace: kyma-system}\nspec: {volumes: " +
				"{skr-agent-key: 1}}", "",
		},

		"a Pod that looks like the agent's": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kyma-system, labels: {app.kubernetes.io/name: " +
				"skr-agent}}",
			"Pod kyma-system/x: metadata.labels: app.kubernetes.io/name=skr-agent would make its pods the agent's",
		},
		"a ReplicaSet that looks like the agent's": {
			"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: x, namespace: kyma-system, labels: " +
				"{app.kubernetes.io/name: skr-agent}}", "ReplicaSet kyma-system/x: metadata.labels",
		},
		"a workload of such pods": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, namespace: kyma-system}\nspec: {template: " +
				"{metadata: {labels: {app.kubernetes.io/name: skr-agent}}}}",
			"spec.template.metadata.labels: app.kubernetes.io/name=skr-agent",
		},
		"a CronJob of such pods": {
			"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x, namespace: kyma-system}\nspec: {jobTemplate: " +
				"{spec: {template: {metadata: {labels: {app.kubernetes.io/name: skr-agent}}}}}}",
			"spec.jobTemplate.spec.template.metadata.labels",
		},
		"such a Pod elsewhere": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: other, labels: {app.kubernetes.io/name: " +
				"skr-agent}}", "",
		},
		"a ConfigMap with that label": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: kyma-system, labels: " +
				"{app.kubernetes.io/name: skr-agent}}", "",
		},
		"a Pod with another label": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kyma-system, labels: {app.kubernetes.io/name: " +
				"keda}}", "",
		},
		"a revision that pods are made of": {
			"apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: x, namespace: kyma-system}\ndata: " +
				"{spec: {template: {spec: {ServiceAccountName: skr-agent}}}}",
			"ControllerRevision kyma-system/x: only Kubernetes writes revisions of workloads",
		},
		"a ConfigMap with such data": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: kyma-system}\ndata: {spec: text}", "",
		},
		"an autoscaler of the agent": {
			"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x, namespace: " +
				"kyma-system}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: skr-agent}}",
			"HorizontalPodAutoscaler kyma-system/x: spec.scaleTargetRef.name: would scale the agent",
		},
		"an autoscaler of the agent's memory": {
			"apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: x, namespace: " +
				"kyma-system}\nspec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: skr-agent}}",
			"VerticalPodAutoscaler kyma-system/x: spec.targetRef.name: would scale the agent",
		},
		"an autoscaler of the module's own": {
			"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x, namespace: " +
				"kyma-system}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: keda}}", "",
		},
		"an autoscaler of another skr-agent": {
			"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x, namespace: other}\nspec: " +
				"{scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: skr-agent}}", "",
		},
		"a custom resource with a target of a kind": {
			"apiVersion: example.org/v1\nkind: X\nmetadata: {name: x, namespace: kyma-system}\nspec: {targetRef: " +
				"skr-agent, scaleTargetRef: {name: skr-agent}}", "",
		},

		"rights of the agent given away": {
			binding("skr-agent", "{kind: User, name: b}"),
			"ClusterRoleBinding x: roleRef.name: gives away role skr-agent",
		},
		"other rights for the agent": {
			binding("view", "{kind: ServiceAccount, name: skr-agent, namespace: kyma-system}"),
			"subjects[1]: changes the rights of the agent",
		},
		"the same by its user name": {
			binding("view", "{kind: User, name: 'system:serviceaccount:kyma-system:skr-agent'}"),
			"subjects[1]: changes the rights",
		},
		"a binding of a module": {
			binding("view", "{kind: ServiceAccount, name: keda, namespace: kyma-system}"), "",
		},

		"a webhook on everything": {
			webhook("MutatingWebhookConfiguration", everything, ""),
			"MutatingWebhookConfiguration nosy: webhooks[1] would intercept",
		},
		"a webhook on everything elsewhere": {
			webhook("MutatingWebhookConfiguration", everything, elsewhere), "",
		},
		"a webhook on Secrets": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}", ""),
			"webhooks[1] would intercept secrets of the agent: exclude kubernetes.io/metadata.name=kyma-system in " +
				"namespaceSelector",
		},
		"a webhook on labeled Secrets": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  objectSelector: {matchLabels: {mine: 'yes'}}\n"), "",
		},
		"a webhook on stored content": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  objectSelector: {matchLabels: {kyma-pull.dev/content: index}}\n"), "would intercept secrets",
		},
		"a webhook on the status of Manifests": {
			webhook("ValidatingWebhookConfiguration",
				"{apiGroups: [operator.kyma-project.io], resources: [manifests/status]}", ""),
			"would intercept manifests",
		},
		"a webhook on a module's CRs": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [operator.kyma-project.io], resources: [kedas]}",
				""), "",
		},
		"a webhook by a label that the module sets": {
			webhook("MutatingWebhookConfiguration", "{apiGroups: [''], resources: [pods]}",
				"  namespaceSelector: {matchLabels: {inject: 'yes'}}\n") +
				"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {inject: 'yes'}}",
			"would intercept pods of the agent",
		},
		"a webhook by a label that was not set": {
			webhook("MutatingWebhookConfiguration", "{apiGroups: [''], resources: [pods]}",
				"  namespaceSelector: {matchLabels: {inject: 'yes'}}\n"), "would intercept pods of the agent",
		},
		"a policy on Leases": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " +
				"x}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [coordination.k8s.io], resources: " +
				"[leases]}]}}",
			"ValidatingAdmissionPolicy x: spec.matchConstraints would intercept leases"},
		"a webhook on everything but the server of its own": {
			webhook("ValidatingWebhookConfiguration", everything,
				"  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: mine}}\n"), "",
		},
		"a webhook that excludes another namespace": {
			webhook("ValidatingWebhookConfiguration", everything,
				"  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, "+
					"values: [kube-system]}]}\n"), "would intercept deployments of the agent",
		},
		"a webhook that excludes by another label": {
			webhook("ValidatingWebhookConfiguration", everything,
				"  namespaceSelector: {matchExpressions: [{key: no-webhooks, operator: DoesNotExist}]}\n"),
			"would intercept",
		},
		"a webhook that ignores failures": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  failurePolicy: Ignore\n"), "would intercept secrets",
		},
		"a webhook on sessions into pods": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [pods/exec, pods/attach]}", ""), "",
		},
		"a webhook on connections": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: ['*'], resources: ['*/*'], operations: [CONNECT]}",
				""), "",
		},
		"a webhook on where pods run": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [pods/binding]}",
				"  objectSelector: {matchExpressions: [{key: app.kubernetes.io/name, operator: DoesNotExist}]}\n"),
			"would intercept pods/binding",
		},
		"a webhook on namespaces": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [namespaces]}", ""),
			"would intercept namespaces",
		},
		"a webhook on other namespaces": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [namespaces]}", elsewhere), "",
		},
		"a webhook on definitions": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [apiextensions.k8s.io], resources: ['*']}",
				elsewhere),
			"would intercept customresourcedefinitions of the agent, which no namespaceSelector excludes: exclude " +
				"group apiextensions.k8s.io in the rules",
		},
		"a webhook on definitions of any group": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: ['*'], resources: [customresourcedefinitions]}",
				elsewhere), "would intercept customresourcedefinitions",
		},
		"a webhook on what is in namespaces of that group": {
			webhook("ValidatingWebhookConfiguration",
				"{apiGroups: [apiextensions.k8s.io], resources: ['*'], scope: Namespaced}", ""), "",
		},
		"a webhook on Secrets without a namespace": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets], scope: Cluster}", ""),
			"",
		},
		"a webhook by a label that Manifests may have": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [operator.kyma-project.io], resources: [manifests]}",
				"  objectSelector: {matchLabels: {a: b}}\n"), "would intercept manifests",
		},
		"a webhook by a label that the chart gives": {
			webhook("MutatingWebhookConfiguration", "{apiGroups: [''], resources: [pods]}",
				"  objectSelector: {matchLabels: {app.kubernetes.io/instance: any}}\n"), "would intercept pods",
		},
		"a webhook as Istio has it": {
			webhook("MutatingWebhookConfiguration", "{apiGroups: [''], resources: [pods]}",
				"  objectSelector: {matchExpressions: [{key: sidecar.istio.io/inject, operator: NotIn, values: "+
					"['false']}]}\n"), "",
		},
		"a webhook with a condition": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  matchConditions: [{name: a, expression: \"request.namespace != 'kyma-system'\"}]\n"), "",
		},
		"a webhook with a condition on another name": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  matchConditions: [{name: a, expression: \"request.namespace != 'kyma -system'\"}]\n"),
			"would intercept secrets",
		},
		"a webhook that is asked what an account may": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [authorization.k8s.io], resources: ['*']}", ""),
			"would intercept selfsubjectaccessreviews",
		},
		"a webhook with another condition": {
			webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}",
				"  matchConditions: [{name: a, expression: \"request.namespace != 'kyma-system' || true\"}]\n"),
			"would intercept secrets",
		},
		"a policy with a condition": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " +
				"x}\nspec: {matchConditions: [{name: a, expression: \"!has(request.namespace) || request.namespace " +
				"!= 'kyma-system'\"}], matchConstraints: {resourceRules: [{apiGroups: ['*'], resources: ['*']}]}}", "",
		},
		"a binding of a policy that is there": {
			binds("other", ""), "ValidatingAdmissionPolicyBinding x: spec.matchResources would intercept",
		},
		"a binding for elsewhere": {
			binds("other", ", matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: mine}}}"),
			"",
		},
		"a binding of a policy of its own": {
			binds("own", "") +
				"\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: " +
				"{name: own}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [example.org], resources: ['*']}]}}", "",
		},
		"a policy that changes Pods": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: x}\nspec: " +
				"{matchConstraints: {resourceRules: [{apiGroups: [''], resources: [pods]}]}}",
			"MutatingAdmissionPolicy x: spec.matchConstraints would intercept pods",
		},

		"a quota of the agent's namespace": {
			"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: x, namespace: kyma-system}\nspec: {hard: {pods: " +
				"'0'}}", "ResourceQuota kyma-system/x: would limit the agent's own pods and objects",
		},
		"a quota of the module's own namespace": {
			"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: x, namespace: mine}", "",
		},
		"limits of the agent's namespace": {
			"apiVersion: v1\nkind: LimitRange\nmetadata: {name: x, namespace: kyma-system}",
			"LimitRange kyma-system/x: would limit",
		},
		"a flow of the agent's account": {
			flow("{kind: ServiceAccount, serviceAccount: {namespace: kyma-system, name: skr-agent}}"),
			"FlowSchema x: spec.rules[0].subjects[1]: would select requests of the agent or of Kubernetes",
		},
		"a flow of all accounts there": {
			flow("{kind: ServiceAccount, serviceAccount: {namespace: kyma-system, name: '*'}}"),
			"would select requests",
		},
		"a flow of the agent's user": {
			flow("{kind: User, user: {name: 'system:serviceaccount:kyma-system:skr-agent'}}"), "would select requests",
		},
		"a flow of every user": {flow("{kind: User, user: {name: '*'}}"), "would select requests"},
		"a flow of all accounts": {
			flow("{kind: Group, group: {name: 'system:serviceaccounts'}}"), "would select requests",
		},
		"a flow of everybody": {
			flow("{kind: Group, group: {name: 'system:authenticated'}}"), "would select requests",
		},
		"a flow of the module's own account": {
			flow("{kind: ServiceAccount, serviceAccount: {namespace: kyma-system, name: keda}}"), "",
		},
		"a priority level of Kubernetes": {
			"apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: PriorityLevelConfiguration\nmetadata: {name: " +
				"workload-low}", "is a priority level of Kubernetes",
		},
		"a priority level of the module's own": {
			"apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: PriorityLevelConfiguration\nmetadata: {name: keda}", "",
		},
		"a server for the core group": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.}",
			"would serve group \"\" of Kubernetes",
		},
		"a server for Deployments": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v2.apps}",
			"would serve group \"apps\"",
		},
		"a server for Leases": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1beta9.coordination.k8s.io}",
			"would serve group",
		},
		"a server for metrics": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1beta1.external.metrics.k8s.io}", "",
		},
		"the API server's Service": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: kubernetes, namespace: default}",
			"Service default/kubernetes: is the address of the API server for the whole cluster",
		},
		"the API server's Endpoints": {
			"apiVersion: v1\nkind: Endpoints\nmetadata: {name: kubernetes, namespace: default}",
			"is the address of the API server",
		},
		"more addresses of the API server": {
			"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: more, namespace: default, " +
				"labels: {kubernetes.io/service-name: kubernetes}}", "is the address of the API server",
		},
		"a Service of that name elsewhere": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: kubernetes, namespace: mine}", "",
		},

		"a webhook that cannot be read": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: " +
				"x}\nwebhooks: [{rules: all}]", "webhooks[0] cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(objects(t, c.yaml), home)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
