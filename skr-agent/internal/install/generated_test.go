package install

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/kyma-pull/kyma-pull/internal/guard"
)

func namespaceWith(name, fields string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + ", " + fields + "}"
}

func clusterRole(labels, rules string) string {
	return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: mine, labels: {" + labels +
		"}}\nrules: [" + rules + "]"
}

func bindingOf(kind, namespace, role, subject string) string {
	return "apiVersion: rbac.authorization.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: mine" + namespace + "}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: " + role + "}\nsubjects: [" + subject +
		"]"
}

func volumeOf(source string) string {
	return "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: mine}\nspec: {capacity: {storage: 1Gi}, " +
		"accessModes: [ReadOnlyMany], " + source + "}"
}

func storageClass(parameters string) string {
	return "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: mine}\nprovisioner: " +
		"example.org/d\nparameters: {" + parameters + "}"
}

func level(name, limited string) string {
	return "apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: PriorityLevelConfiguration\nmetadata: {name: " + name +
		"}\nspec: {type: Limited, limited: {" + limited + "}}"
}

func priorityClass(name, fields string) string {
	return "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: " + name + "}, " + fields + "}"
}

func flowOf(subject string) string {
	return "apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: FlowSchema\nmetadata: {name: mine}\nspec: " +
		"{matchingPrecedence: 9000, priorityLevelConfiguration: {name: workload-low}, " +
		"rules: [{subjects: [" + subject + "], nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['*']}]}]}"
}

func policyOf(version, kind, namespace, spec string) string {
	return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: mine" + namespace + "}\nspec: {" + spec +
		"}"
}

func podIn(namespace, spec string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: mine, namespace: " + namespace + "}\nspec: {" + pods + spec +
		"}"
}

func attachmentOf(secret string) string {
	return "{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: mine}, spec: {attacher: " +
		"d.example.org, nodeName: a, source: {inlineVolumeSpec: {accessModes: " +
		"[ReadOnlyMany], csi: {driver: d.example.org, volumeHandle: h, " + secret + "}}}}}"
}

// annotatedIn returns a cluster-scoped storage object with annotations. kind is APIVERSION/KIND.
func annotatedIn(kind, annotations string) string {
	end := strings.LastIndex(kind, "/")
	fields := map[string]string{
		"PersistentVolume": "spec: {capacity: {storage: 1Gi}, accessModes: [ReadOnlyMany], hostPath: {path: /a}}",
		"StorageClass":     "provisioner: example.org/d",
	}[kind[end+1:]]
	return "apiVersion: " + kind[:end] + "\nkind: " + kind[end+1:] + "\nmetadata: {name: mine, annotations: {" +
		annotations + "}}\n" + fields
}

func ingressIn(namespace, secret string) string {
	return policyOf("networking.k8s.io/v1", "Ingress", ", namespace: "+namespace,
		"defaultBackend: {service: {name: a, port: {number: 80}}}, tls: [{hosts: [a.example.org]}, {secretName: "+secret+"}]")
}

func revisionIn(namespace, data string) string {
	return "{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: mine, namespace: " + namespace +
		"}, revision: 1, data: " + data + "}"
}

// generatedBudget returns a PodDisruptionBudget with random selectors.
func generatedBudget(pick func(...string) string, namespace string) string {
	key := func() string {
		return pick(guard.LabelApp, guard.LabelSidecar, "app.kubernetes.io/instance", "helm.sh/chart", "app")
	}
	value := func() string { return pick("skr-agent", "'false'", "mine") }
	requirement := pick("In, values: ["+value()+", "+value()+"]", "NotIn, values: ["+value()+"]", "Exists", "DoesNotExist")
	return policyOf("policy/v1", "PodDisruptionBudget", ", namespace: "+namespace, "minAvailable: 1, selector: {"+
		pick("", "matchLabels: {"+key()+": "+value()+"}, ")+
		"matchExpressions: ["+pick("", "{key: "+key()+", operator: "+requirement+"}")+"]}")
}

// generated returns an object with random names and references, some of them to the agent.
func generated(random *rand.Rand) string {
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	name := func() string {
		return pick("skr-agent", "skr-agent-key", "skr-agent.x", "skr-agents", "kyma-pull-content", "kyma-pull", "mine")
	}
	namespace := func() string { return pick("kyma-system", "mine", "default") }
	switch random.IntN(19) {
	case 10:
		return priorityClass(pick("mine", name()),
			pick("value: 999999999", "value: 1000000000", "value: 5, globalDefault: true", "value: -5"))
	case 11:
		return generatedBudget(pick, namespace())
	case 12:
		return attachmentOf(fmt.Sprintf("%s: {name: %s, namespace: %s}",
			pick("controllerPublishSecretRef", "nodeStageSecretRef"), name(), namespace()))
	case 13:
		prefix := pick("volume.kubernetes.io/provisioner-deletion", "snapshot.storage.kubernetes.io/deletion")
		return annotatedIn(pick("v1/PersistentVolume", "snapshot.storage.k8s.io/v1/VolumeSnapshotContent",
			"groupsnapshot.storage.k8s.io/v1/VolumeGroupSnapshotContent", "storage.k8s.io/v1/StorageClass"),
			fmt.Sprintf("%[1]s-secret-name: %[2]s, %[1]s-secret-namespace: %[3]s", prefix, name(), namespace()))
	case 14:
		return ingressIn(namespace(), name())
	case 15:
		return policyOf("argoproj.io/v1", "Workflow", ", namespace: "+namespace(),
			pick("serviceAccountName: ", "secretName: ", "text: ")+name())
	case 16:
		return revisionIn(namespace(),
			pick("{spec: {template: {}}}", "{SPEC: {Template: {}}}", "{spec: {replicas: 1}}", "{spec: text}",
				"{template: {}}"))
	case 17:
		return namespaceWith(pick("kyma-system", "default", "kube-public", "mine"), "annotations: {"+
			pick("openshift.io/node-selector", "scheduler.alpha.kubernetes.io/node-selector", "example.org/note")+
			": "+pick("''", "a=b")+"}")
	case 18:
		return fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: mine, namespace: %s}, %s: [{name: %s}]}",
			namespace(), pick("secrets", "imagePullSecrets"), name())
	case 0:
		return fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s, namespace: %s}",
			pick("Secret", "ConfigMap", "ServiceAccount"), name(), namespace())
	case 1:
		return podIn(namespace(),
			fmt.Sprintf(", serviceAccountName: %s, imagePullSecrets: [{name: %s}]", name(), name()))
	case 2:
		return podIn(namespace(),
			fmt.Sprintf(", volumes: [{name: v, %s}]",
				pick("secret: {secretName: "+name()+"}", "rbd: {monitors: [a], image: i, secretRef: {name: "+name()+
					"}}",
					"csi: {driver: d.example.org, nodePublishSecretRef: {name: "+name()+"}}",
					"azureFile: {shareName: s, secretName: "+name()+"}")))
	case 3:
		return volumeOf(fmt.Sprintf("csi: {driver: d.example.org, volumeHandle: h, %s: {name: %s, namespace: %s}}",
			pick("controllerExpandSecretRef", "controllerPublishSecretRef", "nodeExpandSecretRef",
				"nodePublishSecretRef", "nodeStageSecretRef"), name(), namespace()))
	case 4:
		return storageClass(
			fmt.Sprintf("csi.storage.k8s.io/%[1]s-secret-name: %[2]s, csi.storage.k8s.io/%[1]s-secret-namespace: %[3]s",
				pick("provisioner", "node-stage", "controller-expand"), pick(name(), "'${pv.name}'", "'x-${pvc.name}'"),
				pick(namespace(), "'${pvc.namespace}'")))
	case 5:
		return level(pick("mine", "skr-agent-level"),
			fmt.Sprintf("nominalConcurrencyShares: %d, limitResponse: {type: Reject}", random.IntN(200)))
	case 6:
		return namespaceWith(pick("kyma-system", "default", "kube-system", "kube-public", "mine"),
			pick("labels: {a: b}", "finalizers: [a.example/b]",
				"ownerReferences: "+gone, "labels: {pod-security.kubernetes.io/warn: privileged}",
				"labels: {istio.io/dataplane-mode: none}"))
	case 7:
		return clusterRole(pick("a: b", "rbac.authorization.k8s.io/aggregate-to-view: 'true'"),
			fmt.Sprintf("{apiGroups: ['%s'], resources: ['%s'], verbs: ['%s']}",
				pick("*", "kyma-pull.dev", "operator.kyma-project.io", "example.org"),
				pick("*", "agents", "manifests", "kedas"), pick("*", "get", "patch")))
	case 8:
		return bindingOf("RoleBinding", ", namespace: "+namespace(), pick("view", "edit", name()),
			fmt.Sprintf("{kind: ServiceAccount, name: %s, namespace: %s}", name(), namespace()))
	}
	return flowOf(pick("{kind: ServiceAccount, serviceAccount: {namespace: "+pick("kyma-system", "kube-system", "mine")+
		", name: "+pick("'*'", name())+"}}",
		"{kind: Group, group: {name: '"+
			pick("system:masters", "system:serviceaccounts:kyma-system", "system:serviceaccounts:mine", "team")+"'}}",
		"{kind: User, user: {name: '"+
			pick("*", "system:kube-scheduler", "system:serviceaccount:mine:a",
				"system:serviceaccount:kyma-system:skr-agent", "tenant")+"'}}"))
}
