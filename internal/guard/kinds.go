package guard

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

const rbacGroup = "rbac.authorization.k8s.io"

// AgentName is the name of the agent's ServiceAccount, and a prefix of the names of the agent's other objects.
const AgentName = "skr-agent"

// agentNameSeparators are the characters that can follow AgentName in the names of the agent's objects. reservedPrefix
// is another prefix of such names.
const (
	agentNameSeparators = "-."
	reservedPrefix      = "kyma-pull-"
)

// LabelApp is the label that the agent's Deployment and Service use in their pod selectors.
const LabelApp = "app.kubernetes.io/name"

// agentKinds maps the kinds of the agent's custom resources to their plural names.
var agentKinds = map[string]string{
	"Kyma": "kymas", "Manifest": "manifests", "ModuleTemplate": "moduletemplates",
	"ModuleReleaseMeta": "modulereleasemetas", "Watcher": "watchers",
}

func isAgentName(name string) bool {
	rest, isPrefixed := strings.CutPrefix(name, AgentName)
	return isPrefixed && (rest == "" || strings.ContainsRune(agentNameSeparators, rune(rest[0]))) ||
		strings.HasPrefix(name, reservedPrefix)
}

// LabelSidecar is the label that keeps Istio's proxy out of a pod.
const LabelSidecar = "sidecar.istio.io/inject"

// agentPodLabels returns the labels on the agent's pods, without openLabels. The chart sets LabelSidecar to keep
// Istio's proxy out of the agent's pods.
func agentPodLabels() labels.Set { return labels.Set{LabelApp: AgentName, LabelSidecar: "false"} }

// openLabels are prefixes of labels whose values on the agent's objects are not fixed. A selector on such a label
// cannot reliably exclude the agent's objects.
var openLabels = []string{
	v1beta2.Group + "/", "kyma-pull.dev/", "helm.sh/", "pod-template-hash",
	"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by",
}

const crdResource = "customresourcedefinitions"

// AdmissionGroup is the API group for webhooks and admission policies.
const AdmissionGroup = "admissionregistration.k8s.io"

const flowControlGroup = "flowcontrol.apiserver.k8s.io"

// kubernetesNamespaces is the prefix of Kubernetes' namespaces.
const kubernetesNamespaces = "kube-"

func isKubernetesNamespace(namespace string) bool {
	return strings.HasPrefix(namespace, kubernetesNamespaces)
}

const storageGroup = "storage.k8s.io"

// protectedKind is a kind with the plural resource name that requests use.
type protectedKind struct {
	group, kind, resource string
}

func (p protectedKind) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: p.group, Kind: p.kind}
}

// isAny reports whether an object has one of the kinds.
func (k Key) isAny(kinds ...protectedKind) bool {
	return slices.ContainsFunc(kinds, func(p protectedKind) bool { return k.GroupKind() == p.groupKind() })
}

func resourcesOf(kinds ...protectedKind) []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.resource)
	}
	return all
}

// keysOf returns the kinds in the format GROUP/RESOURCE, as in the CEL variable kind.
func keysOf(kinds ...protectedKind) []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.group+"/"+k.resource)
	}
	return all
}

var (
	crdKind        = protectedKind{"apiextensions.k8s.io", "CustomResourceDefinition", crdResource}
	apiServiceKind = protectedKind{"apiregistration.k8s.io", "APIService", "apiservices"}
	namespaceKind  = protectedKind{"", "Namespace", "namespaces"}
	configMapKind  = protectedKind{"", "ConfigMap", "configmaps"}
)

var (
	controllerRevisionKind = protectedKind{"apps", "ControllerRevision", "controllerrevisions"}
	ingressKind            = protectedKind{"networking.k8s.io", "Ingress", "ingresses"}
	secretKind             = protectedKind{"", "Secret", "secrets"}
	serviceAccountKind     = protectedKind{"", "ServiceAccount", "serviceaccounts"}
	budgetKind             = protectedKind{"policy", "PodDisruptionBudget", "poddisruptionbudgets"}
	autoscalerKind         = protectedKind{"autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers"}
	verticalKind           = protectedKind{"autoscaling.k8s.io", "VerticalPodAutoscaler", "verticalpodautoscalers"}
)

var (
	roleKind               = protectedKind{rbacGroup, "Role", "roles"}
	clusterRoleKind        = protectedKind{rbacGroup, "ClusterRole", "clusterroles"}
	roleBindingKind        = protectedKind{rbacGroup, "RoleBinding", "rolebindings"}
	clusterRoleBindingKind = protectedKind{rbacGroup, "ClusterRoleBinding", "clusterrolebindings"}
	quotaKinds             = []protectedKind{{"", "ResourceQuota", "resourcequotas"}, {"", "LimitRange", "limitranges"}}
	priorityLevelKind      = protectedKind{
		flowControlGroup, "PriorityLevelConfiguration", "prioritylevelconfigurations",
	}
	flowSchemaKind    = protectedKind{flowControlGroup, "FlowSchema", "flowschemas"}
	priorityClassKind = protectedKind{"scheduling.k8s.io", "PriorityClass", "priorityclasses"}
	volumeKind        = protectedKind{"", "PersistentVolume", "persistentvolumes"}
	attachmentKind    = protectedKind{storageGroup, "VolumeAttachment", "volumeattachments"}
	storageKinds      = []protectedKind{
		{storageGroup, "StorageClass", "storageclasses"},
		{storageGroup, "VolumeAttributesClass", "volumeattributesclasses"},
		attachmentKind,
	}
	// addressKinds are the kinds whose objects contain the API server's address.
	addressKinds = []protectedKind{
		{"", "Service", "services"}, {"", "Endpoints", "endpoints"},
		{"discovery.k8s.io", "EndpointSlice", "endpointslices"},
	}
)
