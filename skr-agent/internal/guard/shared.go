package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// IsShared reports whether an object is a namespace that no module owns: the agent's, namespace default, and those
// of Kubernetes, whose names start with kube-. It outlives every module.
func IsShared(k Key, home string) bool {
	return IsNamespace(k.GroupKind()) && (k.Name == home || k.Name == "default" || strings.HasPrefix(k.Name, "kube-"))
}

// foreignLabels are the beginnings of labels by which deployment tools and Kubernetes recognize namespaces. A tool
// deletes the objects that its labels mark as its own and that its source does not contain: set by a module on a
// shared namespace, they delete it.
var foreignLabels = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "applyset.kubernetes.io/", "argocd.argoproj.io/",
	"kubernetes.io/metadata.name",
	"kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/", "hnc.x-k8s.io/", "kapp.k14s.io/",
	"objectset.rio.cattle.io/",
}

// NameAndLabels returns the part of a shared namespace that is applied for a module: its name and its labels, except
// the ones of deployment tools. Everything else has an effect beyond the module: garbage collection deletes a namespace
// whose owner is missing, a finalizer keeps it from being deleted, an annotation decides on which nodes all pods run.
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

// changesShared finds fields of a shared namespace that no module may set, and labels that lower its pod security
// (CVE-2026-44938). Annotations and status are only left out, because modules of today have them.
func changesShared(o *unstructured.Unstructured, home string) string {
	if !IsShared(KeyOf(o), home) {
		return ""
	}
	for label, value := range o.GetLabels() {
		switch {
		case strings.HasPrefix(label, "pod-security.kubernetes.io/"):
			return fmt.Sprintf("label %s would change the limits of pods in a namespace of all modules", label)
		case label == "istio.io/dataplane-mode" && value != "none":
			return fmt.Sprintf("label %s would put a proxy between the pods of all modules and the API server", label)
		}
	}
	switch {
	case len(o.GetFinalizers()) > 0:
		return "metadata.finalizers would prevent the deletion of a namespace of all modules"
	case len(o.GetOwnerReferences()) > 0:
		return "metadata.ownerReferences would delete a namespace of all modules with its owner"
	}
	return ""
}

// specifiesShared finds a spec of a shared namespace.
func specifiesShared(o *unstructured.Unstructured, home string) string {
	if spec, _, err := unstructured.NestedMap(o.Object, "spec"); IsShared(KeyOf(o), home) &&
		(err != nil || len(spec) > 0) {
		return "spec would change a namespace of all modules"
	}
	return ""
}

// owns finds owners in content. An owner is identified by its UID, which the API server chooses when it creates the
// owner: content that was published before cannot name an existing one. Kubernetes deletes objects whose owners are
// missing, or belong to another namespace, and the agent would create them again.
func owns(o *unstructured.Unstructured, home string) string {
	if len(o.GetOwnerReferences()) == 0 || IsShared(KeyOf(o), home) {
		return ""
	}
	return "metadata.ownerReferences names an owner that content cannot know, and Kubernetes deletes objects whose " +
		"owner is missing"
}
