package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// IsSharedNamespace reports whether an object is a namespace that no module owns: the agent's namespace, the namespace
// default, or a namespace with the prefix kube-.
func IsSharedNamespace(k Key, agentNamespace string) bool {
	return IsNamespace(k.GroupKind()) && (k.Name == agentNamespace || k.Name == "default" ||
		isKubernetesNamespace(k.Name))
}

// foreignLabels are prefixes of labels that deployment tools set to identify their objects. A tool that finds its label
// on a shared namespace could delete the namespace.
var foreignLabels = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "applyset.kubernetes.io/", "argocd.argoproj.io/",
	"kubernetes.io/metadata.name",
	"kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/", "hnc.x-k8s.io/", "kapp.k14s.io/",
	"objectset.rio.cattle.io/",
}

// NameAndLabels returns a shared namespace's name and labels, which are the only fields that the agent applies for a
// module. Other fields would affect all modules. For example, an owner reference can cause the namespace's deletion.
func NameAndLabels(o *unstructured.Unstructured) *unstructured.Unstructured {
	kept := &unstructured.Unstructured{}
	kept.SetAPIVersion(o.GetAPIVersion())
	kept.SetKind(o.GetKind())
	kept.SetName(o.GetName())
	labels := o.GetLabels()
	maps.DeleteFunc(labels, func(label, _ string) bool {
		return slices.ContainsFunc(foreignLabels, func(start string) bool { return strings.HasPrefix(label, start) })
	})
	if len(labels) > 0 {
		kept.SetLabels(labels)
	}
	return kept
}

const (
	podSecurityLabels  = "pod-security.kubernetes.io/"
	labelDataplaneMode = "istio.io/dataplane-mode"
	dataplaneNone      = "none"
)

// nodeAnnotations are namespace annotations that select the nodes for the namespace's pods.
var nodeAnnotations = []string{
	"scheduler.alpha.kubernetes.io/node-selector", "scheduler.alpha.kubernetes.io/defaultTolerations",
	"scheduler.alpha.kubernetes.io/tolerationsWhitelist", "openshift.io/node-selector",
}

// checkSharedNamespace refuses fields of a shared namespace that no module can set. It also refuses labels that weaken
// the namespace's Pod Security Standard (CVE-2026-44938).
func checkSharedNamespace(o *unstructured.Unstructured, agentNamespace string) string {
	if !IsSharedNamespace(KeyOf(o), agentNamespace) {
		return ""
	}
	for label, value := range o.GetLabels() {
		switch {
		case strings.HasPrefix(label, podSecurityLabels):
			return fmt.Sprintf("label %s would change the pod security of a namespace that modules share", label)
		case label == labelDataplaneMode && value != dataplaneNone:
			return fmt.Sprintf("label %s would route the traffic of all modules' pods through a proxy", label)
		}
	}
	for _, annotation := range nodeAnnotations {
		if o.GetAnnotations()[annotation] != "" {
			return fmt.Sprintf("annotation %s would select the nodes for pods of a namespace that modules share",
				annotation)
		}
	}
	switch {
	case len(o.GetFinalizers()) > 0:
		return "metadata.finalizers would prevent the deletion of a namespace that modules share"
	case len(o.GetOwnerReferences()) > 0:
		return "metadata.ownerReferences would delete a namespace that modules share together with its owner"
	}
	return ""
}

// checkSharedSpec refuses a shared namespace with a spec.
func checkSharedSpec(o *unstructured.Unstructured, agentNamespace string) string {
	if spec, _, err := unstructured.NestedMap(o.Object, "spec"); IsSharedNamespace(KeyOf(o), agentNamespace) &&
		(err != nil || len(spec) > 0) {
		return "spec would change a namespace that modules share"
	}
	return ""
}

// checkOwnerReferences refuses objects with owner references. An owner's UID cannot be known in advance, and Kubernetes
// deletes objects whose owner does not exist.
func checkOwnerReferences(o *unstructured.Unstructured, agentNamespace string) string {
	if len(o.GetOwnerReferences()) == 0 || IsSharedNamespace(KeyOf(o), agentNamespace) {
		return ""
	}
	return "metadata.ownerReferences contains a UID that published content cannot know, and Kubernetes deletes " +
		"objects whose owner does not exist"
}
