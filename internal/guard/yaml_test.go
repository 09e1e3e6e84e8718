package guard

// This file contains module objects in YAML that would change the agent or intercept its requests.

func webhook(kind, rule, selectors string) string {
	return "apiVersion: admissionregistration.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: nosy}\n" +
		"webhooks:\n- name: other.example.org\n  rules: [{apiGroups: [apps], resources: [statefulsets], " +
		"operations: ['*']}]\n" +
		"- name: nosy.example.org\n  rules: [" + rule + "]\n" + selectors
}

const elsewhere = "  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, " +
	"values: [kyma-system]}]}\n"

const everything = "{apiGroups: ['*'], apiVersions: ['*'], resources: ['*/*'], operations: ['*']}"

func binding(role, subject string) string {
	return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: x}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: " + role +
		"}\nsubjects: [{kind: User, name: a}, " + subject + "]"
}

func workload(namespace, account string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, namespace: " + namespace +
		"}\nspec: {template: {spec: {serviceAccountName: " + account + "}}}"
}

func pod(spec string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, namespace: kyma-system}\nspec: {template: " +
		"{spec: {" + spec + "}}}"
}

func binds(policy, resources string) string {
	return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: " +
		"{name: x}\n" +
		"spec: {validationActions: [Deny], policyName: " + policy + resources + "}"
}

func flow(subject string) string {
	return "apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: FlowSchema\nmetadata: {name: x}\n" +
		"spec: {priorityLevelConfiguration: {name: x}, rules: [{subjects: [{kind: User, user: {name: a}}, " +
		subject + "]}]}"
}

func disruptionBudget(namespace, selector string) string {
	return "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: x, namespace: " + namespace +
		"}, spec: {maxUnavailable: 0, selector: " + selector + "}}"
}
