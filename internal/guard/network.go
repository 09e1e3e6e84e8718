package guard

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	adminPolicyGroup   = "policy.networking.k8s.io"
	antreaGroup        = "crd.antrea.io"
	ciliumGroup        = "cilium.io"
	labelNamespaceName = corev1.LabelMetadataName
	// ciliumNamespace is the label with the namespace's name in Cilium's endpoint selectors.
	ciliumNamespace = "k8s:io.kubernetes.pod.namespace"
)

var (
	calicoGroups = []string{"projectcalico.org", "crd.projectcalico.org"}
	// calicoNamespaces are the labels with the namespace's name in Calico's selectors.
	calicoNamespaces = []string{"projectcalico.org/name", labelNamespaceName}
)

// checkNetworkPolicy refuses network policies that take precedence over Kubernetes NetworkPolicies. They could
// disconnect the agent from the API server and the registry. Kubernetes NetworkPolicies are accepted, because the
// chart's own NetworkPolicy allows both connections.
func checkNetworkPolicy(o *unstructured.Unstructured, agentNamespace string) string {
	const fix = "this policy could block the agent's connections and overrides its NetworkPolicy: "
	k := KeyOf(o)
	switch k.Group {
	case adminPolicyGroup:
		if !slices.ContainsFunc(namespaceSelectors(o),
			func(s map[string]any) bool {
				return !labelExcludesNamespace(s, agentNamespace, labelNamespaceName)
			}) {
			return ""
		}
		return fix + "exclude " + labelNamespaceName + "=" + agentNamespace +
			" in the namespace selector of spec.subject"
	case antreaGroup:
		switch {
		case k.Kind == "ClusterNetworkPolicy" &&
			!slices.ContainsFunc(selectorEntries(o, "appliedTo", "namespaceSelector"),
				func(s map[string]any) bool {
					return !labelExcludesNamespace(s, agentNamespace, labelNamespaceName)
				}):
			return ""
		case k.Kind == "ClusterNetworkPolicy":
			return fix + "exclude " + labelNamespaceName + "=" + agentNamespace +
				" in each spec.appliedTo[].namespaceSelector"
		case k.Kind == "NetworkPolicy" && k.Namespace == agentNamespace:
			return fix + "use a Kubernetes NetworkPolicy"
		}
	case calicoGroups[0], calicoGroups[1]:
		selector, _, _ := unstructured.NestedString(o.Object, "spec", "namespaceSelector")
		switch {
		case k.Kind == "GlobalNetworkPolicy" && !calicoExcludesNamespace(selector, agentNamespace):
			return fix + "set spec.namespaceSelector: projectcalico.org/name != '" + agentNamespace + "'"
		case k.Kind == "NetworkPolicy" && k.Namespace == agentNamespace:
			return fix + "use a Kubernetes NetworkPolicy"
		}
	case ciliumGroup:
		switch {
		case k.Kind == "CiliumClusterwideNetworkPolicy" &&
			slices.ContainsFunc(endpointSelectors(o), func(s map[string]any) bool {
				return !labelExcludesNamespace(s, agentNamespace, ciliumNamespace)
			}):
			return fix + "exclude " + ciliumNamespace + "=" + agentNamespace + " in each endpointSelector"
		case k.Kind == "CiliumNetworkPolicy" && k.Namespace == agentNamespace &&
			slices.ContainsFunc(ciliumSpecs(o), deniesTraffic):
			return fix + "use a Kubernetes NetworkPolicy, or remove egressDeny and ingressDeny"
		}
	}
	return ""
}

// namespaceSelectors returns the namespace selectors in an AdminNetworkPolicy or a similar policy.
func namespaceSelectors(o *unstructured.Unstructured) []map[string]any {
	var all []map[string]any
	for _, path := range [][]string{{"spec", "subject", "namespaces"},
		{"spec", "subject", "pods", "namespaceSelector"}} {
		if selector, found, _ := unstructured.NestedMap(o.Object, path...); found {
			all = append(all, selector)
		}
	}
	return selectorsOrMatchAll(all)
}

// ciliumSpecs returns the specs in a Cilium policy: the field spec, the entries of the list specs, or both.
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
	return selectorsOrMatchAll(all)
}

func endpointSelectors(o *unstructured.Unstructured) []map[string]any {
	all := ciliumSpecs(o)
	for n, spec := range all {
		all[n], _ = spec["endpointSelector"].(map[string]any)
	}
	return all
}

func deniesTraffic(spec map[string]any) bool {
	return spec["egressDeny"] != nil || spec["ingressDeny"] != nil
}

// selectorsOrMatchAll returns the selectors. If the list is empty, it returns one nil selector, which matches
// everything.
func selectorsOrMatchAll(selectors []map[string]any) []map[string]any {
	if len(selectors) == 0 {
		return []map[string]any{nil}
	}
	return selectors
}

// labelExcludesNamespace reports whether a label selector can never select the agent's namespace. Only the label with
// the namespace's name counts, because users can change other labels.
func labelExcludesNamespace(selector map[string]any, agentNamespace, label string) bool {
	equal, _, _ := unstructured.NestedMap(selector, "matchLabels")
	if name, found := equal[label]; found && name != agentNamespace {
		return true
	}
	expressions, _, _ := unstructured.NestedSlice(selector, "matchExpressions")
	return slices.ContainsFunc(expressions, func(entry any) bool {
		e, _ := entry.(map[string]any)
		values, _ := e["values"].([]any)
		named := slices.Contains(values, any(agentNamespace))
		return e["key"] == label &&
			(e["operator"] == "NotIn" && named || e["operator"] == "In" && len(values) > 0 && !named)
	})
}

// calicoExcludesNamespace reports whether a Calico selector excludes the agent's namespace. It recognizes only the
// format LABEL != "NAME".
func calicoExcludesNamespace(selector, agentNamespace string) bool {
	for _, label := range calicoNamespaces {
		for _, quote := range []string{"'", `"`} {
			if strings.TrimSpace(selector) == label+" != "+quote+agentNamespace+quote {
				return true
			}
		}
	}
	return false
}

// selectorEntries returns a field from each entry in a list in the object's spec. If the list is empty, it returns one
// nil, which stands for a selector that matches everything.
func selectorEntries(o *unstructured.Unstructured, list, field string) []map[string]any {
	var all []map[string]any
	entries, _, _ := unstructured.NestedSlice(o.Object, "spec", list)
	for _, entry := range entries {
		e, _ := entry.(map[string]any)
		selector, _ := e[field].(map[string]any)
		all = append(all, selector)
	}
	return selectorsOrMatchAll(all)
}
