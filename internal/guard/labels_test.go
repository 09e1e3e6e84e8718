package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
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

func TestLabelsThatExposeTheAgentAreSkipped(t *testing.T) {
	injector := podsWebhook("istio", istio+": enabled",
		"  objectSelector: {matchExpressions: [{key: sidecar.istio.io/inject, operator: NotIn, values: ['false']}]}\n")
	validator := podsWebhook("warden", warden+": enabled", "")
	unlabeled := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: " +
		"{name: rest}\n" +
		"webhooks:\n- name: rest.example.org\n  rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], " +
		"operations: [CREATE]}]\n" +
		"  namespaceSelector: {matchExpressions: [{key: " + istio + ", operator: DoesNotExist}]}\n"
	pod := func(inject string) []metav1.PartialObjectMetadata {
		return []metav1.PartialObjectMetadata{
			{ObjectMeta: metav1.ObjectMeta{Name: "skr-agent-1", Labels: map[string]string{LabelSidecar: inject}}},
		}
	}
	both := labels.Set{istio: "enabled", warden: "enabled"}
	for name, c := range map[string]struct {
		live, left, want labels.Set
		installed        string
		pods             []metav1.PartialObjectMetadata
		safe             labels.Set
		message          string
	}{
		"no webhooks or policies":                   {nil, nil, both, "", pod("false"), both, ""},
		"Istio's webhook excludes the agent's pods": {nil, nil, both, injector, pod("false"), both, ""},
		"agent's pod without the label that disables injection": {
			nil, nil, both, "", pod("true"), labels.Set{warden: "enabled"},
			"istio-injection=enabled would let Istio inject a proxy into Pod skr-agent-1 of the agent",
		},
		"Istio label that disables injection": {
			nil, nil, labels.Set{istio: "disabled"}, "", pod("true"), labels.Set{istio: "disabled"}, "",
		},
		"label that lets Warden's webhook receive the agent's pods": {
			nil, nil, both, injector + "---\n" + validator, pod("false"), labels.Set{istio: "enabled"},
			warden + "=enabled would let ValidatingWebhookConfiguration warden, webhooks[0], intercept pods",
		},
		"labels already exist": {both, both, both, validator, pod("false"), both, ""},
		"label is no longer requested": {
			both, labels.Set{warden: "enabled"}, labels.Set{warden: "enabled"}, "", pod("false"),
			labels.Set{warden: "enabled"}, "",
		},
		"removal of a label that excludes a webhook": {
			labels.Set{istio: "enabled"}, nil, nil, unlabeled, pod("false"), labels.Set{istio: "enabled"},
			"no istio-injection would let ValidatingWebhookConfiguration rest",
		},
		"changed value that no webhook selects": {
			labels.Set{istio: "disabled"}, nil, labels.Set{istio: "enabled"}, unlabeled, pod("false"),
			labels.Set{istio: "enabled"}, "",
		},
	} {
		var installed []unstructured.Unstructured
		if c.installed != "" {
			for _, o := range objects(t, c.installed) {
				installed = append(installed, *o)
			}
		}
		safe, err := SafeLabels(c.live, c.left, c.want, home, installed, c.pods)
		require.Equal(t, c.safe, safe, name)
		if c.message == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.message, name)
		require.ErrorIs(t, err, ErrExposed, name)
	}
}
