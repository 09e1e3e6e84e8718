package guard

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// checkNetworkPolicy refuses network policies that take precedence over Kubernetes NetworkPolicies. They could
// disconnect the agent from the API server and the registry. Kubernetes NetworkPolicies are accepted, because the
// chart's own NetworkPolicy allows both connections.
func checkNetworkPolicy(o *unstructured.Unstructured, home string) string {
	const fix = "this policy could block the agent's connections and overrides its NetworkPolicy: "
	k := KeyOf(o)
	switch k.Group {
	case "policy.networking.k8s.io":
		if !slices.ContainsFunc(selectorsOf(o),
			func(s map[string]any) bool { return !leavesOutNamespace(s, home, corev1.LabelMetadataName) }) {
			return ""
		}
		return fix + "exclude " + corev1.LabelMetadataName + "=" + home + " in the namespace selector of spec.subject"
	case "crd.antrea.io":
		switch {
		case k.Kind == "ClusterNetworkPolicy" &&
			!slices.ContainsFunc(entriesOf(o, "appliedTo", "namespaceSelector"),
				func(s map[string]any) bool { return !leavesOutNamespace(s, home, corev1.LabelMetadataName) }):
			return ""
		case k.Kind == "ClusterNetworkPolicy":
			return fix + "exclude " + corev1.LabelMetadataName + "=" + home +
				" in each spec.appliedTo[].namespaceSelector"
		case k.Kind == "NetworkPolicy" && k.Namespace == home:
			return fix + "use a Kubernetes NetworkPolicy"
		}
	case "projectcalico.org", "crd.projectcalico.org":
		selector, _, _ := unstructured.NestedString(o.Object, "spec", "namespaceSelector")
		switch {
		case k.Kind == "GlobalNetworkPolicy" && !calicoLeavesOut(selector, home):
			return fix + "set spec.namespaceSelector: projectcalico.org/name != '" + home + "'"
		case k.Kind == "NetworkPolicy" && k.Namespace == home:
			return fix + "use a Kubernetes NetworkPolicy"
		}
	case "cilium.io":
		switch {
		case k.Kind == "CiliumClusterwideNetworkPolicy" &&
			slices.ContainsFunc(endpointSelectors(o), func(s map[string]any) bool {
				return !leavesOutNamespace(s, home, "k8s:io.kubernetes.pod.namespace")
			}):
			return fix + "exclude k8s:io.kubernetes.pod.namespace=" + home + " in each endpointSelector"
		case k.Kind == "CiliumNetworkPolicy" && k.Namespace == home && slices.ContainsFunc(ciliumSpecs(o), denies):
			return fix + "use a Kubernetes NetworkPolicy, or remove egressDeny and ingressDeny"
		}
	}
	return ""
}

// selectorsOf returns the namespace selectors of an AdminNetworkPolicy or a similar policy.
func selectorsOf(o *unstructured.Unstructured) []map[string]any {
	var all []map[string]any
	for _, path := range [][]string{{"spec", "subject", "namespaces"},
		{"spec", "subject", "pods", "namespaceSelector"}} {
		if selector, found, _ := unstructured.NestedMap(o.Object, path...); found {
			all = append(all, selector)
		}
	}
	return orMatchAll(all)
}

// ciliumSpecs returns the specs of a Cilium policy, which has a spec, a list specs, or both.
func ciliumSpecs(o *unstructured.Unstructured) []map[string]any {
	var all []map[string]any
	if spec, found, _ := unstructured.NestedMap(o.Object, "spec"); found {
		all = append(all, spec)
	}
	specs, _, _ := unstructured.NestedSlice(o.Object, "specs")
	for _, entry := range specs {
		spec, _ := entry.(map[string]any)
		all = append(all, spec)
	}
	return orMatchAll(all)
}

func endpointSelectors(o *unstructured.Unstructured) []map[string]any {
	all := ciliumSpecs(o)
	for n, spec := range all {
		all[n], _ = spec["endpointSelector"].(map[string]any)
	}
	return all
}

func denies(spec map[string]any) bool { return spec["egressDeny"] != nil || spec["ingressDeny"] != nil }

// orMatchAll returns the selectors. If the list is empty, it returns one nil selector, which matches everything.
func orMatchAll(selectors []map[string]any) []map[string]any {
	if len(selectors) == 0 {
		return []map[string]any{nil}
	}
	return selectors
}

// leavesOutNamespace reports whether a label selector can never select the namespace home. Only the label with the
// namespace's name counts, because users can change other labels.
func leavesOutNamespace(selector map[string]any, home, label string) bool {
	equal, _, _ := unstructured.NestedMap(selector, "matchLabels")
	if name, found := equal[label]; found && name != home {
		return true
	}
	expressions, _, _ := unstructured.NestedSlice(selector, "matchExpressions")
	return slices.ContainsFunc(expressions, func(entry any) bool {
		e, _ := entry.(map[string]any)
		values, _ := e["values"].([]any)
		named := slices.Contains(values, any(home))
		return e["key"] == label &&
			(e["operator"] == "NotIn" && named || e["operator"] == "In" && len(values) > 0 && !named)
	})
}

// calicoLeavesOut reports whether a Calico selector excludes the namespace home. It recognizes only the form LABEL !=
// "NAME".
func calicoLeavesOut(selector, home string) bool {
	for _, label := range []string{"projectcalico.org/name", corev1.LabelMetadataName} {
		for _, quote := range []string{"'", `"`} {
			if strings.TrimSpace(selector) == label+" != "+quote+home+quote {
				return true
			}
		}
	}
	return false
}
