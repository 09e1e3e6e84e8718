package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// A role that can read Secrets must list the Secrets' names, because the release namespace contains private keys. The
// only exception is a role for another namespace.
func TestRolesReadOnlyTheirOwnSecrets(t *testing.T) {
	charts := cases(t)
	for name, values := range map[string]map[string]any{
		"only required values": {},
		"webhooks":             {"webhook": map[string]any{"enabled": true}},
		"signature policy": {
			"signaturePolicy": map[string]any{
				"apiVersion": "kyma-pull.dev/v1", "kind": "SignaturePolicy",
				"rules": []any{map[string]any{"components": "*", "required": false}},
			},
			"signatureKeysNamespace": "signatures", "secretsNamespace": "secrets",
		},
	} {
		values["location"], values["keys"] = "registry.example/fleet", map[string]any{"secretName": "keys"}
		charts[name] = release(t, "kcp-publisher", values)
	}
	for name, r := range charts {
		if r.Name != "kcp-publisher" {
			continue
		}
		readers := map[string]string{} // the role that can read a namespace's Secrets, or one named Secret
		for _, o := range objectsOf(t, r) {
			for _, rule := range rulesOnSecrets(t, o) {
				secrets := []string{o.GetNamespace() + "/*"}
				if len(rule.ResourceNames) > 0 {
					secrets = nil
					for _, secret := range rule.ResourceNames {
						secrets = append(secrets, o.GetNamespace()+"/"+secret)
					}
				} else {
					require.NotContains(t, []string{"", r.Namespace}, o.GetNamespace(), "%s: %s %s reads all Secrets",
						name, o.GetKind(), o.GetName())
				}
				for _, secret := range secrets {
					require.Empty(t, readers[secret], "%s: %s reads Secrets %s of another role", name, o.GetName(), secret)
					readers[secret] = o.GetName()
				}
			}
		}
		require.NotContains(t, readers, r.Namespace+"/keys", name)
	}
}

// The agent reads only its own Secrets and the Secrets in rbac.secrets.
func TestAgentReadsOnlyNamedSecrets(t *testing.T) {
	r := release(t, "skr-agent", map[string]any{"rbac": map[string]any{
		"secrets": []any{"btp-credentials", "mail/login", "mail/relay"},
	}})
	named := map[string][]string{}
	for _, o := range objectsOf(t, r) {
		for _, rule := range rulesOnSecrets(t, o) {
			require.NotEmpty(t, rule.ResourceNames, "%s %s reads all Secrets", o.GetKind(), o.GetName())
			for _, secret := range rule.ResourceNames {
				if !strings.HasPrefix(secret, "skr-agent-") && !strings.HasPrefix(secret, "kyma-pull-content-slot-") {
					named[o.GetNamespace()] = append(named[o.GetNamespace()], secret)
				}
			}
		}
	}
	require.Equal(t, map[string][]string{"kyma-system": {"btp-credentials"}, "mail": {"login", "relay"}}, named)
}

// rulesOnSecrets returns a role's rules that allow reading Secrets.
func rulesOnSecrets(t *testing.T, o *unstructured.Unstructured) (found []rbacv1.PolicyRule) {
	t.Helper()
	if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
		return nil
	}
	role := &rbacv1.ClusterRole{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role))
	has := func(all []string, wanted ...string) bool {
		return slices.ContainsFunc(all, func(one string) bool { return one == "*" || slices.Contains(wanted, one) })
	}
	for _, rule := range role.Rules {
		if has(rule.APIGroups, "") && has(rule.Resources, "secrets") && has(rule.Verbs, "get", "list", "watch") {
			found = append(found, rule)
		}
	}
	return found
}
