package guard

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// checkRedirection refuses objects that can redirect the agent's connections: Services with external IPs
// (CVE-2020-8554), and Cilium and Antrea policies that redirect traffic.
func checkRedirection(o *unstructured.Unstructured, agentNamespace string) string {
	const fix = "this object could redirect the agent's connections: "
	switch k := KeyOf(o); k.Group {
	case "":
		if ips, err := listAt(o, "spec", "externalIPs"); k.Kind == "Service" &&
			(err != nil || len(ips) > 0) {
			return fix + "remove spec.externalIPs, and use a Service of type LoadBalancer"
		}
	case "cilium.io":
		frontend, _, err := unstructured.NestedMap(o.Object, "spec", "redirectFrontend")
		switch {
		case k.Kind == "CiliumLocalRedirectPolicy" && (err != nil || frontend["serviceMatcher"] == nil):
			return fix + "use spec.redirectFrontend.serviceMatcher instead of an address"
		case k.Kind == "CiliumEgressGatewayPolicy" && redirectsEgress(o, agentNamespace):
			return fix + "exclude " + corev1.LabelMetadataName + "=" + agentNamespace +
				" in each spec.selectors[].namespaceSelector"
		}
	case "crd.antrea.io":
		selector, _, _ := unstructured.NestedMap(o.Object, "spec", "appliedTo", "namespaceSelector")
		if (k.Kind == "Egress" || k.Kind == "TrafficControl") &&
			!labelExcludesNamespace(selector, agentNamespace, corev1.LabelMetadataName) {
			return fix + "exclude " + corev1.LabelMetadataName + "=" + agentNamespace + " in spec.appliedTo.namespaceSelector"
		}
	}
	return ""
}

// redirectsEgress reports whether an egress gateway can select pods in a namespace and thus redirect their traffic.
func redirectsEgress(o *unstructured.Unstructured, namespace string) bool {
	pods := selectorEntries(o, "selectors", "podSelector")
	for i, namespaces := range selectorEntries(o, "selectors", "namespaceSelector") {
		if !labelExcludesNamespace(namespaces, namespace, corev1.LabelMetadataName) &&
			!labelExcludesNamespace(pods[i], namespace, "io.kubernetes.pod.namespace") {
			return true
		}
	}
	return false
}
