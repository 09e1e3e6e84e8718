package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestModulesMayNotWriteWhatTheAgentIs(t *testing.T) {
	webhook := func(kind, rule, selectors string) string {
		return "apiVersion: admissionregistration.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: nosy}\n" +
			"webhooks:\n- name: other.example.org\n  rules: [{apiGroups: [apps], resources: [statefulsets], operations: ['*']}]\n" +
			"- name: nosy.example.org\n  rules: [" + rule + "]\n" + selectors
	}
	const elsewhere = "  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kyma-system]}]}\n"
	const everything = "{apiGroups: ['*'], apiVersions: ['*'], resources: ['*/*'], operations: ['*']}"
	binding := func(role, subject string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: x}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: " + role + "}\nsubjects: [{kind: User, name: a}, " + subject + "]"
	}
	workload := func(namespace, account string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, namespace: " + namespace + "}\nspec: {template: {spec: {serviceAccountName: " + account + "}}}"
	}
	pod := func(spec string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, namespace: kyma-system}\nspec: {template: {spec: {" + spec + "}}}"
	}
	for name, c := range map[string]struct{ yaml, want string }{
		"the runtime's Kyma":               {"apiVersion: operator.kyma-project.io/v1beta2\nkind: Kyma\nmetadata: {name: default, namespace: kyma-system}", "Kyma kyma-system/default: tells the agent what to do"},
		"a Manifest in an older version":   {"apiVersion: operator.kyma-project.io/v1beta1\nkind: Manifest\nmetadata: {name: x, namespace: kyma-system}", "Manifest kyma-system/x: tells the agent"},
		"a ModuleTemplate elsewhere":       {"apiVersion: operator.kyma-project.io/v1beta2\nkind: ModuleTemplate\nmetadata: {name: x, namespace: other}", "ModuleTemplate other/x: tells the agent"},
		"a module CR of Kyma's group":      {"apiVersion: operator.kyma-project.io/v1alpha1\nkind: Keda\nmetadata: {name: default, namespace: kyma-system}", ""},
		"the definition of Manifests":      {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: manifests.operator.kyma-project.io}", "defines what the agent takes orders from"},
		"the definition of a module's CR":  {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: kedas.operator.kyma-project.io}", ""},
		"a server for the agent's group":   {"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1beta2.operator.kyma-project.io}", "would serve what the agent takes orders from"},
		"the agent's key":                  {"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-key, namespace: kyma-system}", "Secret kyma-system/skr-agent-key: has a name of the agent's own: remove it from the module"},
		"stored content":                   {"apiVersion: v1\nkind: Secret\nmetadata: {name: kyma-pull-content-sha256-00, namespace: kyma-system}", "has a name of the agent's own"},
		"the agent's Deployment":           {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: skr-agent, namespace: kyma-system}", "has a name of the agent's own"},
		"the agent's ServiceAccount":       {"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: skr-agent, namespace: kyma-system}", "has a name of the agent's own"},
		"the agent's lease":                {"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: skr-agent.kyma-pull.dev, namespace: kyma-system}", "has a name of the agent's own"},
		"the agent's ClusterRole":          {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: skr-agent}", "ClusterRole skr-agent: has a name of the agent's own"},
		"the agent's admission policy":     {"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: skr-agent-protection}", "has a name of the agent's own"},
		"the API server's certificates":    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: kyma-system}", "ConfigMap kyma-system/kube-root-ca.crt: tells the agent which API server"},
		"the same in another namespace":    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: other}", ""},
		"such a name in another namespace": {"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-key, namespace: other}", ""},
		"a name that only begins alike":    {"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agents, namespace: kyma-system}", ""},

		"pod security of the agent's namespace": {"apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {pod-security.kubernetes.io/enforce: privileged}}", "Namespace kyma-system: label pod-security.kubernetes.io/enforce"},
		"pod security of kube-system":           {"apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system, labels: {pod-security.kubernetes.io/enforce-version: v1.0}}", "label pod-security.kubernetes.io/enforce-version"},
		"pod security of the module's own":      {"apiVersion: v1\nkind: Namespace\nmetadata: {name: mine, labels: {pod-security.kubernetes.io/enforce: privileged}}", ""},
		"another label of a shared namespace":   {"apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {a: b}}", ""},

		"a workload that runs as the agent":  {workload("kyma-system", "skr-agent"), "Deployment kyma-system/x: spec.template.spec.serviceAccountName would make its pods the agent"},
		"a Pod that runs as the agent":       {"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kyma-system}\nspec: {serviceAccount: skr-agent}", "spec.serviceAccount would make"},
		"a CronJob that runs as the agent":   {"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x, namespace: kyma-system}\nspec: {jobTemplate: {spec: {template: {spec: {serviceAccountName: skr-agent}}}}}", "spec.jobTemplate.spec.template.spec.serviceAccountName"},
		"a workload with an account its own": {workload("kyma-system", "keda"), ""},
		"an account of that name elsewhere":  {workload("other", "skr-agent"), ""},
		"a token of the agent":               {"apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: kyma-system, annotations: {kubernetes.io/service-account.name: skr-agent}}\ntype: kubernetes.io/service-account-token", "asks for a token of the agent's ServiceAccount"},

		"the agent's key as files":             {pod("volumes: [{name: v, secret: {secretName: skr-agent-key}}]"), "Deployment kyma-system/x: spec.template.spec would give its pods Secret skr-agent-key of the agent"},
		"the agent's key among other files":    {pod("volumes: [{name: v, projected: {sources: [{configMap: {name: a}}, {secret: {name: skr-agent-key}}]}}]"), "Secret skr-agent-key of the agent"},
		"the agent's Secret as variables":      {pod("initContainers: [{name: a, envFrom: [{secretRef: {name: skr-agent-bootstrap}}]}]"), "Secret skr-agent-bootstrap of the agent"},
		"the agent's key as a variable":        {pod("containers: [{name: a, env: [{name: A, value: b}, {name: B, valueFrom: {secretKeyRef: {name: skr-agent-key, key: agent.key}}}]}]"), "Secret skr-agent-key of the agent"},
		"a Secret of the module's own":         {pod("volumes: [{name: v, secret: {secretName: mine}}]"), ""},
		"the agent's Secret to pull images":    {pod("imagePullSecrets: [{name: mine}, {name: skr-agent-bootstrap}]"), "Secret skr-agent-bootstrap of the agent"},
		"the same for an account's pods":       {"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: kyma-system}\nimagePullSecrets: [{name: skr-agent-bootstrap}]", "ServiceAccount kyma-system/x: imagePullSecrets would give its pods Secret skr-agent-bootstrap"},
		"an account with a Secret of its own":  {"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: kyma-system}\nimagePullSecrets: [{name: mine}]", ""},
		"the agent's key for a driver":         {pod("volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: skr-agent-key}}}]"), "Secret skr-agent-key of the agent"},
		"a custom resource with another shape": {"apiVersion: example.org/v1\nkind: X\nmetadata: {name: x, namespace: kyma-system}\nspec: {volumes: {skr-agent-key: 1}}", ""},

		"a Pod that looks like the agent's":         {"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kyma-system, labels: {app.kubernetes.io/name: skr-agent}}", "Pod kyma-system/x: metadata.labels: app.kubernetes.io/name=skr-agent would make its pods the agent's"},
		"a ReplicaSet that looks like the agent's":  {"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: x, namespace: kyma-system, labels: {app.kubernetes.io/name: skr-agent}}", "ReplicaSet kyma-system/x: metadata.labels"},
		"a workload of such pods":                   {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, namespace: kyma-system}\nspec: {template: {metadata: {labels: {app.kubernetes.io/name: skr-agent}}}}", "spec.template.metadata.labels: app.kubernetes.io/name=skr-agent"},
		"a CronJob of such pods":                    {"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x, namespace: kyma-system}\nspec: {jobTemplate: {spec: {template: {metadata: {labels: {app.kubernetes.io/name: skr-agent}}}}}}", "spec.jobTemplate.spec.template.metadata.labels"},
		"such a Pod elsewhere":                      {"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: other, labels: {app.kubernetes.io/name: skr-agent}}", ""},
		"a ConfigMap with that label":               {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: kyma-system, labels: {app.kubernetes.io/name: skr-agent}}", ""},
		"a Pod with another label":                  {"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kyma-system, labels: {app.kubernetes.io/name: keda}}", ""},
		"a revision that pods are made of":          {"apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: x, namespace: kyma-system}\ndata: {spec: {template: {spec: {ServiceAccountName: skr-agent}}}}", "ControllerRevision kyma-system/x: revisions of workloads are written by Kubernetes"},
		"a ConfigMap with such data":                {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: kyma-system}\ndata: {spec: text}", ""},
		"an autoscaler of the agent":                {"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x, namespace: kyma-system}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: skr-agent}}", "HorizontalPodAutoscaler kyma-system/x: spec.scaleTargetRef.name: would scale the agent"},
		"an autoscaler of the agent's memory":       {"apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: x, namespace: kyma-system}\nspec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: skr-agent}}", "VerticalPodAutoscaler kyma-system/x: spec.targetRef.name: would scale the agent"},
		"an autoscaler of the module's own":         {"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x, namespace: kyma-system}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: keda}}", ""},
		"an autoscaler of another skr-agent":        {"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x, namespace: other}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: skr-agent}}", ""},
		"a custom resource with a target of a kind": {"apiVersion: example.org/v1\nkind: X\nmetadata: {name: x, namespace: kyma-system}\nspec: {targetRef: skr-agent, scaleTargetRef: {name: skr-agent}}", ""},

		"rights of the agent given away": {binding("skr-agent", "{kind: User, name: b}"), "ClusterRoleBinding x: roleRef.name: gives away role skr-agent"},
		"other rights for the agent":     {binding("view", "{kind: ServiceAccount, name: skr-agent, namespace: kyma-system}"), "subjects[1]: changes the rights of the agent"},
		"the same by its user name":      {binding("view", "{kind: User, name: 'system:serviceaccount:kyma-system:skr-agent'}"), "subjects[1]: changes the rights"},
		"a binding of a module":          {binding("view", "{kind: ServiceAccount, name: keda, namespace: kyma-system}"), ""},

		"a webhook on everything":                   {webhook("MutatingWebhookConfiguration", everything, ""), "MutatingWebhookConfiguration nosy: webhooks[1] would intercept"},
		"a webhook on everything elsewhere":         {webhook("MutatingWebhookConfiguration", everything, elsewhere), ""},
		"a webhook on Secrets":                      {webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}", ""), "webhooks[1] would intercept secrets of the agent: let namespaceSelector leave out kubernetes.io/metadata.name=kyma-system"},
		"a webhook on labeled Secrets":              {webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}", "  objectSelector: {matchLabels: {mine: 'yes'}}\n"), ""},
		"a webhook on stored content":               {webhook("ValidatingWebhookConfiguration", "{apiGroups: [''], resources: [secrets]}", "  objectSelector: {matchLabels: {kyma-pull.dev/content: index}}\n"), "would intercept secrets"},
		"a webhook on the status of Manifests":      {webhook("ValidatingWebhookConfiguration", "{apiGroups: [operator.kyma-project.io], resources: [manifests/status]}", ""), "would intercept manifests"},
		"a webhook on a module's CRs":               {webhook("ValidatingWebhookConfiguration", "{apiGroups: [operator.kyma-project.io], resources: [kedas]}", ""), ""},
		"a webhook by a label that the module sets": {webhook("MutatingWebhookConfiguration", "{apiGroups: [''], resources: [pods]}", "  namespaceSelector: {matchLabels: {inject: 'yes'}}\n") + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {inject: 'yes'}}", "would intercept pods of the agent"},
		"a webhook by a label that nobody set":      {webhook("MutatingWebhookConfiguration", "{apiGroups: [''], resources: [pods]}", "  namespaceSelector: {matchLabels: {inject: 'yes'}}\n"), ""},
		"a policy on Leases": {"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: x}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [coordination.k8s.io], resources: [leases]}]}}",
			"ValidatingAdmissionPolicy x: spec.matchConstraints would intercept leases"},
		"a webhook that cannot be read": {"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: x}\nwebhooks: [{rules: all}]", "webhooks[0] cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			err := protect(objects(t, c.yaml), home)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestADefaultCRIsHeldToTheSameRules(t *testing.T) {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "skr-agent-key", "namespace": home},
	}}
	p, err := makePlan(nil, secret, nil, sampleOwner, func(schema.GroupVersionKind) (bool, error) { return true, nil })
	require.NoError(t, err)
	require.ErrorContains(t, protect(p.all(), home), "Secret kyma-system/skr-agent-key: has a name of the agent's own")
}
