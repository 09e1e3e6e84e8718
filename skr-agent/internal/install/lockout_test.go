package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestModulesCannotLockOutTheAgent(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	const nosy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: nosy}
webhooks:
- name: nosy.example.org
  clientConfig: {url: "https://127.0.0.1:1/"}
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Fail
  rules:
  - {apiGroups: [''], apiVersions: ['*'], resources: [secrets, configmaps], operations: ['*']}
  - {apiGroups: [operator.kyma-project.io], apiVersions: ['*'], resources: ['*/*'], operations: ['*']}
  namespaceSelector: `
	labeled := func(label string) string {
		return "apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {" + label + "}}\n"
	}
	webhook := &admissionv1.ValidatingWebhookConfiguration{}

	t.Log("one module labels the namespace, and another contains a webhook that selects this label")
	w.wants("labels", labeled("inject: 'yes'"))
	w.state("labels", v1beta2.StateReady, "")
	w.wants("nosy", nosy+"{matchLabels: {inject: 'yes'}}\n")
	w.state("nosy", v1beta2.StateError,
		"ValidatingWebhookConfiguration nosy: webhooks[0] would intercept configmaps of the agent: exclude "+
			"kubernetes.io/metadata.name=kyma-system in namespaceSelector (webhooks[0].namespaceSelector: "+
			"{matchExpressions: "+
			"[{key: kubernetes.io/metadata.name, operator: NotIn, values: [kyma-system]}]}), or remove it from the "+
			"module")
	require.False(t, w.exists(webhook, "", "nosy"))
	w.wants("nosy",
		nosy+"{matchExpressions: [{key: inject, operator: Exists}, {key: kubernetes.io/metadata.name, operator: "+
			"NotIn, values: [kyma-system]}]}\n")
	w.state("nosy", v1beta2.StateReady, "")
	require.True(t, w.exists(webhook, "", "nosy"))

	t.Log("a module sets a label that another client's webhook selects")
	theirs := objects(t, nosy+"{matchLabels: {audit: 'on'}}\n")[0]
	theirs.SetName("theirs")
	require.NoError(t, w.client.Create(ctx, theirs))
	w.wants("labels", labeled("inject: 'yes', audit: 'on'"))
	w.state("labels", v1beta2.StateError,
		"Namespace kyma-system: metadata.labels: audit=on would let ValidatingWebhookConfiguration theirs, "+
			"webhooks[0], intercept configmaps of the agent")
	namespace := &corev1.Namespace{}
	require.True(t, w.exists(namespace, "", home))
	require.Equal(t, "yes", namespace.Labels["inject"])
	require.Empty(t, namespace.Labels["audit"])
	require.NoError(t, w.client.Create(ctx, configMap("still-writable", nil)))
	require.NoError(t, w.client.Delete(ctx, theirs))
	w.state("labels", v1beta2.StateReady, "")

	t.Log("a module removes a label that another client's webhook excludes")
	unless := objects(t,
		nosy+"{matchExpressions: [{key: audit, operator: DoesNotExist}, {key: kubernetes.io/metadata.name, operator: "+
			"In, values: [kyma-system]}]}\n")[0]
	unless.SetName("unless")
	require.NoError(t, w.client.Create(ctx, unless))
	w.wants("labels", labeled("inject: 'yes'"))
	w.state("labels", v1beta2.StateError,
		"Namespace kyma-system: metadata.labels: no audit would let ValidatingWebhookConfiguration unless")
	require.True(t, w.exists(namespace, "", home))
	require.Equal(t, "on", namespace.Labels["audit"])
	require.NoError(t, w.client.Delete(ctx, unless))
	w.state("labels", v1beta2.StateReady, "")

	t.Log("objects that would limit or redirect the agent are refused")
	for name, c := range map[string]struct {
		yaml, message string
		object        client.Object
	}{
		"quota": {
			"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: quota}\nspec: {hard: {secrets: '0'}}\n",
			"this object would limit the agent's pods and objects", &corev1.ResourceQuota{},
		},
		"limit": {
			"apiVersion: v1\nkind: LimitRange\nmetadata: {name: limit}\nspec: {limits: [{type: Container, max: " +
				"{memory: 1Mi}}]}\n", "this object would limit the agent's pods and objects", &corev1.LimitRange{},
		},
		"flow": {
			"apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: FlowSchema\nmetadata: {name: flow}\nspec: " +
				"{matchingPrecedence: 1, priorityLevelConfiguration: {name: catch-all}, rules: [{subjects: " +
				"[{kind: ServiceAccount, serviceAccount: {namespace: kyma-system, name: skr-agent}}], " +
				"nonResourceRules: " +
				"[{verbs: ['*'], nonResourceURLs: ['*']}]}]}\n", "would select requests from the agent or Kubernetes",
			&flowcontrolv1.FlowSchema{}},
		"kubernetes": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: kubernetes, namespace: default}\nspec: {ports: [{port: " +
				"1}]}\n", "this object defines the address of the API server for the whole cluster", nil,
		},
		"admin": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: cluster-admin}\nrules: []\n",
			"ClusterRole cluster-admin already exists and does not belong to this module", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.wants(name, c.yaml)
			w.state(name, v1beta2.StateError, c.message)
			if c.object != nil {
				require.False(t, w.exists(c.object, home, name))
			}
		})
	}
	t.Log("a module cannot set owners, finalizers and annotations of shared namespaces")
	shared := func(fields string) string { return namespaceWith("kyma-system", "labels: {inject: 'yes'}"+fields) }
	w.wants("labels", shared(", ownerReferences: "+gone))
	w.state("labels", v1beta2.StateError,
		"Namespace kyma-system: metadata.ownerReferences would delete a namespace that modules share together "+
			"with its owner")
	w.wants("labels", shared(", finalizers: [thief.example/hold]"))
	w.state("labels", v1beta2.StateError,
		"Namespace kyma-system: metadata.finalizers would prevent the deletion of a namespace that modules share")
	w.wants("labels", shared(", annotations: {openshift.io/node-selector: no=where}"))
	w.state("labels", v1beta2.StateError,
		"Namespace kyma-system: annotation openshift.io/node-selector would select the nodes for pods of a namespace "+
			"that modules share")
	require.True(t, w.exists(namespace, "", home))
	require.Empty(t, namespace.OwnerReferences)
	require.Empty(t, namespace.Finalizers)
	require.Empty(t, namespace.Annotations)

	admin := &rbacv1.ClusterRole{}
	require.True(t, w.exists(admin, "", "cluster-admin"))
	require.NotEmpty(t, admin.Rules)
}
