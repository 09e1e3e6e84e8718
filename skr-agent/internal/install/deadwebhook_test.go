package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// deadWebhook is a webhook without a server. It intercepts all requests outside kyma-system.
const deadWebhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: everything}
webhooks:
- name: everything.example.org
  clientConfig: {url: "https://127.0.0.1:1/"}
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Fail
  timeoutSeconds: 1
  rules: [{apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: ['*'], scope: '*'}]
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kyma-system]}]}
---
`

const clusterCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gates.example.kyma-project.io}
spec:
  group: example.kyma-project.io
  scope: Cluster
  names: {kind: Gate, plural: gates, singular: gate, listKind: GateList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
`

func TestRemovalDeletesDeadWebhookFirst(t *testing.T) {
	w := newWorld(t)
	gate := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.kyma-project.io/v1", "kind": "Gate", "metadata": map[string]any{"name": "default"},
	}}
	withGate := func(m *v1beta2.Manifest) {
		m.Spec.Resource, m.Spec.CustomResourcePolicy = gate.DeepCopy(), v1beta2.PolicyCreateAndDelete
	}
	w.wants("gate", clusterCRD+aConfigMap("gate"), withGate)
	w.state("gate", v1beta2.StateReady, "")
	w.wants("gate", clusterCRD+aConfigMap("gate")+deadWebhook, withGate, version("2"))
	w.eventually("the webhook is installed", func() bool {
		return w.exists(&admissionv1.ValidatingWebhookConfiguration{}, "", "everything")
	})
	w.eventually("the webhook blocks deletions", func() bool {
		return w.client.Delete(t.Context(), gate.DeepCopy(), client.DryRunAll) != nil
	})
	w.remove("gate")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "gate") })
	require.False(t, w.exists(&admissionv1.ValidatingWebhookConfiguration{}, "", "everything"))
}

// An operator cannot remove its finalizers while a dead webhook intercepts updates. The deletion itself succeeds.
func TestRemovalDeletesWebhookThatBlocksFinalizers(t *testing.T) {
	w := newWorld(t)
	gate := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.kyma-project.io/v1", "kind": "Gate", "metadata": map[string]any{"name": "default"},
	}}
	withGate := func(m *v1beta2.Manifest) {
		m.Spec.Resource, m.Spec.CustomResourcePolicy = gate.DeepCopy(), v1beta2.PolicyCreateAndDelete
	}
	onUpdates := strings.Replace(deadWebhook, "operations: ['*']", "operations: [UPDATE]", 1)
	w.wants("gate", clusterCRD+aConfigMap("gate"), withGate)
	w.state("gate", v1beta2.StateReady, "")
	setFinalizers := func(value string, options ...client.PatchOption) error {
		patch := []byte(`{"metadata":{"finalizers":` + value + `}}`)
		return w.client.Patch(t.Context(), gate.DeepCopy(), client.RawPatch(types.MergePatchType, patch), options...)
	}
	require.NoError(t, setFinalizers(`["example.org/operator"]`))
	w.wants("gate", clusterCRD+aConfigMap("gate")+onUpdates, withGate, version("2"))
	w.eventually("the webhook blocks updates", func() bool { return setFinalizers("null", client.DryRunAll) != nil })
	w.remove("gate")
	w.eventually("the operator can remove its finalizer", func() bool { return setFinalizers("null") == nil })
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "gate") })
}

func TestDeadWebhookDoesNotBlockUpgradesWithServiceAccount(t *testing.T) {
	accounts, err := guard.ParseAccounts([]string{"modules"}, home)
	require.NoError(t, err)
	w := newWorldWith(t, Options{Accounts: accounts})
	writing := []string{"get", "list", "create", "patch", "delete"}
	w.allows("modules", rule("", "configmaps", writing...), rule("admissionregistration.k8s.io", "*", writing...))
	rights := func(name string) metav1.ConditionStatus {
		if c := meta.FindStatusCondition(w.manifest(name).Status.Conditions, v1beta2.ConditionRights); c != nil {
			return c.Status
		}
		return ""
	}

	w.wants("other", aConfigMap("one"))
	w.state("other", v1beta2.StateReady, "")
	require.Empty(t, rights("other"))
	w.wants("blocker", aConfigMap("blocker")+deadWebhook)
	w.state("blocker", v1beta2.StateReady, "")
	w.eventually("the webhook blocks reviews", func() bool {
		return w.client.Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probe"}},
			client.DryRunAll) != nil
	})

	t.Log("another module is upgraded, and its Manifest reports that its permissions are unknown")
	w.wants("other", aConfigMap("one")+aConfigMap("two"), version("2"))
	w.eventually("the upgrade is applied", func() bool { return w.exists(&corev1.ConfigMap{}, home, "two") })
	w.eventually("the permissions are unknown", func() bool { return rights("other") == metav1.ConditionUnknown })
	condition := meta.FindStatusCondition(w.manifest("other").Status.Conditions, v1beta2.ConditionRights)
	require.Equal(t, v1beta2.ReasonRightsUnknown, condition.Reason)
	require.Contains(t, condition.Message,
		"the permissions of system:serviceaccount:kyma-system:modules could not be reviewed")
	w.state("other", v1beta2.StateReady, "")

	t.Log("the dry run detects a missing permission")
	w.wants("greedy", aConfigMap("greedy")+"apiVersion: v1\nkind: Secret\nmetadata: {name: greedy}\n")
	w.state("greedy", v1beta2.StateError, "may not write Secret kyma-system/greedy")
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "greedy"))

	t.Log("the module removes its webhook")
	w.wants("blocker", aConfigMap("blocker"), version("2"))
	w.eventually("the webhook is gone", func() bool {
		return !w.exists(&admissionv1.ValidatingWebhookConfiguration{}, "", "everything")
	})
	w.wants("other", aConfigMap("one"), version("3"))
	w.eventually("the permissions are reviewed again", func() bool { return rights("other") == metav1.ConditionTrue })
}
