package chart

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The files in rbac/ and policy/ contain the namespace kcp-system, which the chart replaces. The agent's chart refuses
// namespaces other than kyma-system.
func TestPublisherChartUsesOnlyTheReleaseNamespace(t *testing.T) {
	for name, r := range cases(t) {
		if r.Name != "kcp-publisher" {
			continue
		}
		r.Namespace = "fleet"
		var namespaces []string // namespaces that the publisher can read
		for _, o := range objectsOf(t, r) {
			data, err := json.Marshal(o)
			require.NoError(t, err)
			require.NotContains(t, string(data), "kcp-system", "%s: %s %s", name, o.GetKind(), o.GetName())
			if o.GetKind() != "Role" {
				continue
			}
			role := &rbacv1.Role{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role))
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					if resource == "namespaces" {
						require.Equal(t, []string{"get"}, rule.Verbs, name)
						namespaces = append(namespaces, rule.ResourceNames...)
					}
				}
			}
		}
		require.Equal(t, []string{"fleet"}, namespaces, name)
	}
}
