package guard

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// AgentName is the agent's ServiceAccount, and how the names of all else begin that is its own.
const AgentName = "skr-agent"

// LabelApp tells the agent's pods from others, for Kubernetes: its Deployment, its ReplicaSets and its Service select them by it.
const LabelApp = "app.kubernetes.io/name"

// ownKinds are the agent's custom resources, with the plural that definitions and rules have.
var ownKinds = map[string]string{
	"Kyma": "kymas", "Manifest": "manifests", "ModuleTemplate": "moduletemplates", "ModuleReleaseMeta": "modulereleasemetas", "Watcher": "watchers",
}

// protect refuses objects that no module may write, with whatever rights: what the agent is, knows and takes orders from. The error
// names the object and the rule.
//
// The names are those of charts/skr-agent, whose policy/protection.yaml makes the API server hold the line against everybody else.
func Check(objects []*unstructured.Unstructured, home string) error {
	policies := map[string]bool{}
	for _, o := range objects {
		if o.GroupVersionKind().Group == AdmissionGroup {
			policies[o.GetKind()+" "+o.GetName()] = true
		}
	}
	for _, o := range objects {
		k := KeyOf(o)
		rule := Protected(k, home)
		for _, look := range []func(*unstructured.Unstructured, string) string{weakens, borrows, resembles, aims, seizes, starves, usurps} {
			if rule == "" {
				rule = look(o, home)
			}
		}
		if rule != "" {
			return fmt.Errorf("%s: %s: remove it from the module", k, rule)
		}
		if rule = intercepts(o, home, policies); rule != "" {
			return fmt.Errorf("%s: %s, or remove it from the module", k, rule)
		}
	}
	return nil
}

// protected returns the rule that keeps an object from modules by what it is called; empty when they may have it.
func Protected(k Key, home string) string {
	switch {
	case k.Group == v1beta2.GroupVersion.Group && ownKinds[k.Kind] != "":
		return "tells the agent what to do, which only a bundle may"
	case IsCRD(schema.GroupKind{Group: k.Group, Kind: k.Kind}) && isOwnDefinition(k.Name):
		return "defines what the agent takes orders from"
	case k.Kind == "APIService" && strings.HasSuffix(k.Name, "."+v1beta2.GroupVersion.Group):
		return "would serve what the agent takes orders from"
	case k.Group == "" && k.Kind == "ConfigMap" && k.Namespace == home && k.Name == "kube-root-ca.crt":
		return "tells the agent which API server is the cluster's"
	case (k.Namespace == home || k.Namespace == "") && isAgents(k.Name):
		return "has a name of the agent's own"
	}
	return ""
}

func isAgents(name string) bool {
	return name == AgentName || strings.HasPrefix(name, AgentName+"-") || strings.HasPrefix(name, AgentName+".") || strings.HasPrefix(name, "kyma-pull-")
}

func isOwnDefinition(name string) bool {
	plural, group, _ := strings.Cut(name, ".")
	return group == v1beta2.GroupVersion.Group && isOwnPlural(plural)
}

func isOwnPlural(name string) bool {
	for _, plural := range ownKinds {
		if name == plural {
			return true
		}
	}
	return false
}

// weakens finds labels of namespaces that many modules share which say what pods may do there (CVE-2026-44938).
func weakens(o *unstructured.Unstructured, home string) string {
	if !IsShared(KeyOf(o), home) {
		return ""
	}
	for label := range o.GetLabels() {
		if strings.HasPrefix(label, "pod-security.kubernetes.io/") {
			return fmt.Sprintf("label %s would change what pods may do in a namespace of all modules", label)
		}
	}
	return ""
}

// templates are where workloads say what their pods are.
var templates = [][]string{{"spec", "template"}, {"template"}, {"spec", "jobTemplate", "spec", "template"}}

// borrows finds what would run as the agent, or get its token or another of its Secrets.
func borrows(o *unstructured.Unstructured, home string) string {
	if o.GetNamespace() != home {
		return ""
	}
	k := KeyOf(o)
	if k.Group == "" && k.Kind == "Secret" && isAgents(o.GetAnnotations()["kubernetes.io/service-account.name"]) {
		return "asks for a token of the agent's ServiceAccount"
	}
	if k.Group == "" && k.Kind == "ServiceAccount" {
		// Its imagePullSecrets become those of its pods, and are written like them.
		if secret := secretIn(o.Object); secret != "" {
			return fmt.Sprintf("imagePullSecrets would give its pods Secret %s of the agent", secret)
		}
	}
	for _, path := range append([][]string{nil}, templates...) {
		path = append(slices.Clone(path), "spec")
		spec, _, _ := unstructured.NestedMap(o.Object, path...)
		for _, field := range []string{"serviceAccountName", "serviceAccount"} {
			if account, _ := spec[field].(string); isAgents(account) {
				return fmt.Sprintf("%s.%s would make its pods the agent", strings.Join(path, "."), field)
			}
		}
		if secret := secretIn(spec); secret != "" {
			return fmt.Sprintf("%s would give its pods Secret %s of the agent", strings.Join(path, "."), secret)
		}
	}
	return ""
}

// secretIn finds a Secret of the agent that a pod would read or pull its images with; empty when there is none.
func secretIn(podSpec map[string]any) string {
	var pod corev1.PodSpec
	// What the API server would not take for a pod mounts nothing.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(podSpec, &pod); err != nil {
		return ""
	}
	var names []string
	for _, s := range pod.ImagePullSecrets {
		names = append(names, s.Name)
	}
	for _, v := range pod.Volumes {
		names = append(names, secretsOf(v)...)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil {
				names = append(names, e.SecretRef.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				names = append(names, e.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
	if n := slices.IndexFunc(names, isAgents); n >= 0 {
		return names[n]
	}
	return ""
}

func secretsOf(v corev1.Volume) []string {
	var names []string
	if v.Secret != nil {
		names = append(names, v.Secret.SecretName)
	}
	if v.Projected != nil {
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				names = append(names, s.Secret.Name)
			}
		}
	}
	if v.AzureFile != nil {
		names = append(names, v.AzureFile.SecretName)
	}
	if v.CSI != nil && v.CSI.NodePublishSecretRef != nil {
		names = append(names, v.CSI.NodePublishSecretRef.Name)
	}
	if v.FlexVolume != nil && v.FlexVolume.SecretRef != nil {
		names = append(names, v.FlexVolume.SecretRef.Name)
	}
	if v.ISCSI != nil && v.ISCSI.SecretRef != nil {
		names = append(names, v.ISCSI.SecretRef.Name)
	}
	return names
}

// resembles finds what Kubernetes would take for the agent's pods, or make pods of that nobody looked at.
func resembles(o *unstructured.Unstructured, home string) string {
	k := KeyOf(o)
	if k.Namespace != home || !slices.Contains([]string{"", "apps", "batch"}, k.Group) {
		return ""
	}
	if k.Kind == "ControllerRevision" {
		return "revisions of workloads are written by Kubernetes"
	}
	carriers := slices.Clone(templates)
	if k.Kind == "Pod" || k.Kind == "ReplicaSet" {
		carriers = append(carriers, nil)
	}
	for _, path := range carriers {
		path = append(slices.Clone(path), "metadata", "labels")
		labels, _, _ := unstructured.NestedMap(o.Object, path...)
		if labels[LabelApp] == AgentName {
			return fmt.Sprintf("%s: %s=%s would make its pods the agent's", strings.Join(path, "."), LabelApp, AgentName)
		}
	}
	return ""
}

// aims finds autoscalers that would decide how many agents run, or with how much memory.
func aims(o *unstructured.Unstructured, home string) string {
	k := KeyOf(o)
	target := map[schema.GroupKind]string{
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:      "scaleTargetRef",
		{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}: "targetRef",
	}[schema.GroupKind{Group: k.Group, Kind: k.Kind}]
	name, _, _ := unstructured.NestedString(o.Object, "spec", target, "name")
	if k.Namespace == home && target != "" && isAgents(name) {
		return fmt.Sprintf("spec.%s.name: would scale the agent", target)
	}
	return ""
}

// seizes finds bindings that give the agent's rights away, or change what rights the agent has.
func seizes(o *unstructured.Unstructured, home string) string {
	k := KeyOf(o)
	if k.Group != "rbac.authorization.k8s.io" || !strings.HasSuffix(k.Kind, "RoleBinding") {
		return ""
	}
	role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
	if isAgents(role) {
		return fmt.Sprintf("roleRef.name: gives away role %s of the agent", role)
	}
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for n, s := range subjects {
		subject, _ := s.(map[string]any)
		name, _ := subject["name"].(string)
		namespace, _ := subject["namespace"].(string)
		user, isUser := strings.CutPrefix(name, "system:serviceaccount:"+home+":")
		if subject["kind"] == "ServiceAccount" && namespace == home && isAgents(name) || isUser && isAgents(user) {
			return fmt.Sprintf("subjects[%d]: changes the rights of the agent", n)
		}
	}
	return ""
}
