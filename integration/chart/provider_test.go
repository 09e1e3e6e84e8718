package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Without the rule in the NetworkPolicy, a login could not reach the metadata service.
func TestProviderSetsFlagAndAllowsMetadataService(t *testing.T) {
	const (
		podIdentity, machine = "169.254.170.23/32", "169.254.169.254/32"
	)
	for name, c := range map[string]struct {
		chart, provider string
		allowed, denied []string
	}{
		"publisher on AWS":             {"kcp-publisher", "aws", []string{podIdentity, machine}, nil},
		"publisher on Google":          {"kcp-publisher", "gcp", []string{machine}, []string{podIdentity}},
		"publisher on Azure":           {"kcp-publisher", "azure", []string{machine}, []string{podIdentity}},
		"publisher without a provider": {"kcp-publisher", "generic", nil, []string{podIdentity, machine}},
		"agent on AWS":                 {"skr-agent", "aws", []string{podIdentity}, []string{machine}},
		"agent on Google":              {"skr-agent", "gcp", []string{machine}, []string{podIdentity}},
		"agent on Azure":               {"skr-agent", "azure", nil, []string{podIdentity, machine}},
		"agent without a provider":     {"skr-agent", "", nil, []string{podIdentity, machine}},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"registry": map[string]any{"provider": c.provider}}
			if c.chart == "kcp-publisher" {
				values["location"], values["keys"] = "registry.example/fleet", map[string]any{"secretName": "keys"}
			}
			objects := objectsOf(t, release(t, c.chart, values))
			var deployment appsv1.Deployment
			pick(t, objects, "Deployment", &deployment)
			var flags []string
			for _, argument := range deployment.Spec.Template.Spec.Containers[0].Args {
				if strings.HasPrefix(argument, "--registry-provider") {
					flags = append(flags, argument)
				}
			}
			var want []string
			if c.provider != "" && c.provider != "generic" {
				want = []string{"--registry-provider=" + c.provider}
			}
			require.Equal(t, want, flags)
			var policy networkingv1.NetworkPolicy
			pick(t, objects, "NetworkPolicy", &policy)
			var blocks []string
			for _, rule := range policy.Spec.Egress {
				for _, peer := range rule.To {
					blocks = append(blocks, peer.IPBlock.CIDR)
				}
			}
			for _, block := range c.allowed {
				require.Contains(t, blocks, block)
			}
			for _, block := range c.denied {
				require.False(t, slices.Contains(blocks, block), "egress to %s is allowed", block)
			}
		})
	}
}
