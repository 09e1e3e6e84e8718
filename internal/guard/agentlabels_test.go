package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

func TestLabelsThatExposeTheAgentToWebhooksAreRefused(t *testing.T) {
	installed := objects(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: injector}
webhooks:
- name: nosy.example.org
  rules: [{apiGroups: [''], resources: [secrets]}]
  namespaceSelector: {matchLabels: {inject: 'yes'}}
- name: istio.example.org
  rules: [{apiGroups: [''], resources: [pods]}]
  namespaceSelector: {matchLabels: {istio-injection: enabled}}
  objectSelector: {matchExpressions: [{key: sidecar.istio.io/inject, operator: NotIn, values: ['false']}]}
- name: unless.example.org
  rules: [{apiGroups: [apps], resources: [deployments]}]
  namespaceSelector: {matchExpressions: [{key: quiet, operator: NotIn, values: ['yes']}]}
- name: elsewhere.example.org
  rules: [{apiGroups: ['*'], resources: ['*']}]
  namespaceSelector: {matchExpressions: [{key: all, operator: Exists}, {key: kubernetes.io/metadata.name, operator: NotIn, values: [kyma-system]}]}
`)
	found := []unstructured.Unstructured{*installed[0]}
	for name, c := range map[string]struct {
		before, after labels.Set
		want          string
	}{
		"label that no webhook selects": {nil, labels.Set{"a": "b"}, ""},
		"label that a webhook selects": {
			nil, labels.Set{"inject": "yes"},
			"metadata.labels: inject=yes would let MutatingWebhookConfiguration injector, webhooks[0], intercept " +
				"secrets of the agent",
		},
		"selected label that already exists": {
			labels.Set{"inject": "yes"}, labels.Set{"inject": "yes", "a": "b"}, "",
		},
		"label changes to a value that a webhook selects": {
			labels.Set{"inject": "no"}, labels.Set{"inject": "yes"}, "inject=yes would let",
		},
		"label no longer excludes the namespace from a webhook": {
			labels.Set{"quiet": "yes"}, labels.Set{"quiet": "no"}, "webhooks[2], intercept deployments",
		},
		"label that excludes the namespace from a webhook is removed": {
			labels.Set{"quiet": "yes"}, labels.Set{}, "metadata.labels: no quiet would let",
		},
		"webhook for pods that excludes the agent's pods": {nil, labels.Set{"istio-injection": "enabled"}, ""},
		"webhook that excludes the agent's namespace":     {nil, labels.Set{"all": "yes"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rule := CheckNamespaceLabels(c.before, c.after, home, found)
			if c.want == "" {
				require.Empty(t, rule)
				return
			}
			require.Contains(t, rule, c.want)
		})
	}
}
