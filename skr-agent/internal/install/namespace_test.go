package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// podsWebhook returns a webhook for pods in labeled namespaces, like Istio's webhook.
func podsWebhook(name, label, objectSelector string) string {
	return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: " +
		name + "}\n" +
		"webhooks:\n- name: pods.example.org\n  failurePolicy: Ignore\n  sideEffects: None\n  " +
		"admissionReviewVersions: [v1]\n  clientConfig: {url: 'https://127.0.0.1:1'}\n" +
		"  rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]\n" +
		"  namespaceSelector: {matchLabels: {" + label + "}}\n" + objectSelector
}

const istio, warden = "istio-injection", "namespaces.warden.kyma-project.io/validate"

func TestLabelNamespaceRestoresLabels(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	has := func(want map[string]string) {
		t.Helper()
		namespace := &corev1.Namespace{}
		require.True(t, w.exists(namespace, "", home))
		for label, value := range want {
			require.Equal(t, value, namespace.Labels[label], label)
		}
	}
	require.NoError(t, LabelNamespace(ctx, w.client, home, map[string]string{istio: "enabled", warden: "enabled"}))
	has(map[string]string{istio: "enabled", warden: "enabled"})
	namespace := &corev1.Namespace{}
	require.True(t, w.exists(namespace, "", home))
	before := namespace.ResourceVersion
	require.NoError(t, LabelNamespace(ctx, w.client, home, map[string]string{istio: "enabled", warden: "enabled"}))
	require.True(t, w.exists(namespace, "", home))
	require.Equal(t, before, namespace.ResourceVersion, "unchanged labels must not be written")

	delete(namespace.Labels, istio)
	namespace.Labels["team"] = "a"
	require.NoError(t, w.client.Update(ctx, namespace))
	require.NoError(t, LabelNamespace(ctx, w.client, home, map[string]string{istio: "enabled"}))
	has(map[string]string{istio: "enabled", warden: "", "team": "a"})

	validator := objects(t, podsWebhook("warden", warden+": enabled", ""))[0]
	require.NoError(t, w.client.Create(ctx, validator))
	err := LabelNamespace(ctx, w.client, home, map[string]string{warden: "enabled"})
	require.ErrorIs(t, err, guard.ErrExposed)
	has(map[string]string{istio: "", warden: "", "team": "a"})
}
