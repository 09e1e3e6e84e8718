package guard

import "testing"

func TestModulesCannotRedirectTheAgentsConnections(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"Service with an external IP": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {externalIPs: [192.0.2.1]}",
			"remove spec.externalIPs",
		},
		"Service of type LoadBalancer": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {type: LoadBalancer}", "",
		},
		"Cilium redirect of an address": {
			"apiVersion: cilium.io/v2\nkind: CiliumLocalRedirectPolicy\nmetadata: {name: dns, namespace: shop}\n" +
				"spec: {redirectFrontend: {addressMatcher: {ip: 192.0.2.1}}}",
			"use spec.redirectFrontend.serviceMatcher",
		},
		"Cilium redirect of a Service": {
			"apiVersion: cilium.io/v2\nkind: CiliumLocalRedirectPolicy\nmetadata: {name: dns, namespace: shop}\n" +
				"spec: {redirectFrontend: {serviceMatcher: {serviceName: dns, namespace: shop}}}", "",
		},
		"Cilium egress gateway for all namespaces": {
			"apiVersion: cilium.io/v2\nkind: CiliumEgressGatewayPolicy\nmetadata: {name: out}\n" +
				"spec: {selectors: [{podSelector: {}}]}",
			"exclude kubernetes.io/metadata.name=kyma-system in each spec.selectors[].namespaceSelector",
		},
		"Cilium egress gateway for one namespace": {
			"apiVersion: cilium.io/v2\nkind: CiliumEgressGatewayPolicy\nmetadata: {name: out}\n" +
				"spec: {selectors: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}]}", "",
		},
		"Cilium egress gateway for the pods of one namespace": {
			"apiVersion: cilium.io/v2\nkind: CiliumEgressGatewayPolicy\nmetadata: {name: out}\n" +
				"spec: {selectors: [{podSelector: {matchLabels: {io.kubernetes.pod.namespace: shop}}}]}", "",
		},
		"Antrea traffic control for all namespaces": {
			"apiVersion: crd.antrea.io/v1alpha2\nkind: TrafficControl\nmetadata: {name: mirror}\n" +
				"spec: {appliedTo: {podSelector: {}}, action: Redirect}",
			"exclude kubernetes.io/metadata.name=kyma-system in spec.appliedTo.namespaceSelector",
		},
		"Antrea egress for one namespace": {
			"apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {name: out}\n" +
				"spec: {appliedTo: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}}", "",
		},
	} {
		t.Run(name, func(t *testing.T) { checkContent(t, c.yaml, c.want) })
	}
}
