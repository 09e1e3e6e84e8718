package install

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

const (
	gone = "[{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: gone, uid: " +
		"11111111-1111-1111-1111-111111111111}]"
	pods = "containers: [{name: a, image: b}]"
)

// ruleCases returns objects with the rule that refuses each of them. The rule is empty for accepted objects.
func ruleCases() map[string]struct{ yaml, rule string } {
	const (
		inHome    = ", namespace: kyma-system"
		elsewhere = "{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kyma-system]}]}"
		aggregate = "rbac.authorization.k8s.io/aggregate-to-edit: 'true'"
		csi       = "csi: {driver: d.example.org, volumeHandle: h, "
		agentKey  = "{name: skr-agent-key, namespace: kyma-system}"
		anp       = "policy.networking.k8s.io/v1alpha1"
	)
	return map[string]struct{ yaml, rule string }{
		"priority level with too many shares": {
			level("mine", "nominalConcurrencyShares: 2147483647, limitResponse: {type: Reject}"), "priority-level",
		},
		"priority level with too many queues": {
			level("mine",
				"nominalConcurrencyShares: 5, limitResponse: {type: Queue, queuing: {queues: 1000000, handSize: 1, "+
					"queueLengthLimit: 50}}"), "priority-level",
		},
		"built-in priority level": {
			level("workload-low",
				"nominalConcurrencyShares: 1, limitResponse: {type: Queue, queuing: {queues: 64, handSize: 6, "+
					"queueLengthLimit: 50}}"), "priority-level",
		},
		"small priority level": {
			level("mine", "nominalConcurrencyShares: 30, limitResponse: {type: Reject}"), "",
		},
		"FlowSchema for the agent": {
			flowOf("{kind: ServiceAccount, serviceAccount: {namespace: kyma-system, name: skr-agent}}"), "request-flow",
		},
		"FlowSchema for nodes": {
			flowOf("{kind: Group, group: {name: 'system:nodes'}}"), "request-flow",
		},
		"FlowSchema for the garbage collector": {
			flowOf("{kind: User, user: {name: 'system:serviceaccount:kube-system:generic-garbage-collector'}}"),
			"request-flow",
		},
		"FlowSchema for the module": {
			flowOf("{kind: ServiceAccount, serviceAccount: {namespace: mine, name: keda}}"), "",
		},
		"volume with the agent's key": {
			volumeOf(csi + "nodePublishSecretRef: " + agentKey + "}"), "secret-reference",
		},
		"volume with the agent's key in nodeStageSecretRef": {
			volumeOf(csi + "nodeStageSecretRef: " + agentKey + "}"), "secret-reference",
		},
		"iSCSI volume with the agent's key": {
			volumeOf(
				"iscsi: {targetPortal: '1.1.1.1', iqn: 'iqn.2001-04.com.example:a', lun: 0, chapAuthSession: true, " +
					"secretRef: " + agentKey + "}"), "secret-reference",
		},
		"Azure volume with the agent's key": {
			volumeOf("azureFile: {shareName: s, secretName: skr-agent-key, secretNamespace: kyma-system}"),
			"secret-reference",
		},
		"volume with the module's Secret": {
			volumeOf(csi + "nodePublishSecretRef: {name: mine, namespace: kyma-system}}"), "",
		},
		"storage class with the agent's key": {
			storageClass(
				"csi.storage.k8s.io/node-publish-secret-name: skr-agent-key, " +
					"csi.storage.k8s.io/node-publish-secret-namespace: kyma-system"), "secret-reference",
		},
		"storage class with the agent's key in adminSecretName": {
			storageClass("adminSecretName: skr-agent-key, adminSecretNamespace: kyma-system"), "secret-reference",
		},
		"storage class with a template that uses an annotation": {
			storageClass(
				"csi.storage.k8s.io/node-publish-secret-name: \"${pvc.annotations['a']}\", " +
					"csi.storage.k8s.io/node-publish-secret-namespace: '${pvc.namespace}'"), "secret-reference",
		},
		"storage class with a template that uses the claim's name": {
			storageClass(
				"csi.storage.k8s.io/node-publish-secret-name: '${pvc.name}', " +
					"csi.storage.k8s.io/node-publish-secret-namespace: '${pvc.namespace}'"), "",
		},
		"AdminNetworkPolicy for all namespaces": {
			policyOf(anp, "AdminNetworkPolicy", "", "priority: 1, subject: {namespaces: {}}"), "network",
		},
		"AdminNetworkPolicy for namespaces with a label": {
			policyOf(anp, "AdminNetworkPolicy", "",
				"priority: 1, subject: {pods: {namespaceSelector: {matchLabels: {a: b}}, podSelector: {}}}"), "network",
		},
		"AdminNetworkPolicy for other namespaces": {
			policyOf(anp, "AdminNetworkPolicy", "", "priority: 1, subject: {namespaces: "+elsewhere+"}"), "",
		},
		"BaselineAdminNetworkPolicy for all namespaces": {
			policyOf(anp, "BaselineAdminNetworkPolicy", "", "subject: {namespaces: {}}"), "network",
		},
		"Cilium policy for all pods": {
			policyOf("cilium.io/v2", "CiliumClusterwideNetworkPolicy", "", "endpointSelector: {}, egressDeny: [{}]"),
			"network",
		},
		"Cilium policy for nodes": {
			policyOf("cilium.io/v2", "CiliumClusterwideNetworkPolicy", "", "nodeSelector: {}, egressDeny: [{}]"),
			"network",
		},
		"Cilium policy for another namespace": {
			policyOf("cilium.io/v2", "CiliumClusterwideNetworkPolicy", "",
				"endpointSelector: {matchLabels: {'k8s:io.kubernetes.pod.namespace': mine}}"), "",
		},
		"Cilium policy that denies in kyma-system": {
			policyOf("cilium.io/v2", "CiliumNetworkPolicy", inHome, "endpointSelector: {}, egressDeny: [{}]"),
			"network",
		},
		"Cilium policy that allows in kyma-system": {
			policyOf("cilium.io/v2", "CiliumNetworkPolicy", inHome, "endpointSelector: {}, egress: [{}]"), "",
		},
		"Calico policy for all namespaces": {
			policyOf("projectcalico.org/v3", "GlobalNetworkPolicy", "", "types: [Egress]"), "network",
		},
		"Calico policy for other namespaces": {
			policyOf("projectcalico.org/v3", "GlobalNetworkPolicy", "",
				"namespaceSelector: \"projectcalico.org/name != 'kyma-system'\""), "",
		},
		"Antrea policy for all pods": {
			policyOf("crd.antrea.io/v1beta1", "ClusterNetworkPolicy", "", "appliedTo: [{podSelector: {}}]"), "network",
		},
		"Antrea policy for other namespaces": {
			policyOf("crd.antrea.io/v1beta1", "ClusterNetworkPolicy", "", "appliedTo: [{namespaceSelector: "+elsewhere+
				"}]"), "",
		},
		"Kubernetes NetworkPolicy": {
			"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: mine, namespace: " +
				"kyma-system}\nspec: {podSelector: {}, policyTypes: [Egress]}", "",
		},
		"operator permissions aggregated to edit": {
			clusterRole(aggregate, "{apiGroups: [kyma-pull.dev], resources: [agents], verbs: [change]}"),
			"granted-rights",
		},
		"ClusterRole with operator permissions": {
			clusterRole("a: b", "{apiGroups: [kyma-pull.dev], resources: [agents], verbs: ['*']}"), "granted-rights",
		},
		"all permissions aggregated to edit": {
			clusterRole(aggregate, "{apiGroups: ['*'], resources: ['*'], verbs: ['*']}"), "granted-rights",
		},
		"permissions for Manifests aggregated to edit": {
			clusterRole(aggregate, "{apiGroups: [operator.kyma-project.io], resources: [manifests], verbs: [patch]}"),
			"granted-rights",
		},
		"permissions for the module's kind aggregated to edit": {
			clusterRole(aggregate, "{apiGroups: [operator.kyma-project.io], resources: [kedas], verbs: [patch]}"), "",
		},
		"ClusterRole with all permissions": {
			clusterRole("a: b", "{apiGroups: ['*'], resources: ['*'], verbs: ['*']}"), "",
		},
		"cluster-admin for all users": {
			bindingOf("ClusterRoleBinding", "", "cluster-admin",
				"{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:authenticated'}"), "granted-rights",
		},
		"binding of the agent's role": {
			bindingOf("ClusterRoleBinding", "", "skr-agent",
				"{apiGroup: rbac.authorization.k8s.io, kind: User, name: a}"), "agent-rights",
		},
		"binding of a role to the agent": {
			bindingOf("RoleBinding", ", namespace: mine", "view",
				"{kind: ServiceAccount, name: skr-agent, namespace: kyma-system}"), "agent-rights",
		},
		"ClusterRole without rules": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: mine}", "",
		},
		"binding of a role to the module": {
			bindingOf("RoleBinding", ", namespace: mine", "view",
				"{kind: ServiceAccount, name: keda, namespace: kyma-system}"), "",
		},
		"namespace kyma-system with a missing owner": {
			namespaceWith("kyma-system", "ownerReferences: "+gone), "shared-namespace",
		},
		"namespace kube-system with a missing owner": {
			namespaceWith("kube-system", "ownerReferences: "+gone), "shared-namespace",
		},
		"namespace default with a missing owner": {
			namespaceWith("default", "ownerReferences: "+gone), "shared-namespace",
		},
		"namespace kyma-system with a finalizer": {
			namespaceWith("kyma-system", "finalizers: [thief.example/hold]"), "shared-namespace",
		},
		"namespace kube-node-lease with a finalizer": {
			namespaceWith("kube-node-lease", "finalizers: [thief.example/hold]"), "shared-namespace",
		},
		"namespace kyma-system with Istio's ambient label": {
			namespaceWith("kyma-system", "labels: {istio.io/dataplane-mode: ambient}"), "shared-namespace",
		},
		"namespace default with a pod security label": {
			namespaceWith("default", "labels: {pod-security.kubernetes.io/enforce: privileged}"), "shared-namespace",
		},
		"namespace kyma-system with another label": {namespaceWith("kyma-system", "labels: {a: b}"), ""},
		"namespace of the module with a finalizer": {namespaceWith("mine", "finalizers: [mine.example/hold]"), ""},
		"APIService for the agent's API group": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: " +
				"v1beta9.operator.kyma-project.io}\nspec: {group: operator.kyma-project.io, version: v1beta9, " +
				"groupPriorityMinimum: 1, versionPriority: 1, insecureSkipTLSVerify: true, service: {name: a, " +
				"namespace: mine}}", "agent-api",
		},
		"APIService for Leases": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: " +
				"v1beta9.coordination.k8s.io}\nspec: {group: coordination.k8s.io, version: v1beta9, " +
				"groupPriorityMinimum: 1, versionPriority: 1, insecureSkipTLSVerify: true, service: {name: a, " +
				"namespace: mine}}", "kubernetes-api",
		},
		"APIService for metrics": {
			"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: " +
				"v1beta1.external.metrics.k8s.io}\nspec: {group: external.metrics.k8s.io, version: v1beta1, " +
				"groupPriorityMinimum: 1, versionPriority: 1, insecureSkipTLSVerify: true, service: {name: a, " +
				"namespace: mine}}", "",
		},
		"EndpointSlice of the API server": {
			"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: more, namespace: default, " +
				"labels: {kubernetes.io/service-name: kubernetes}}\naddressType: IPv4\nendpoints: []", "kubernetes-api",
		},
		"EndpointSlice of another Service": {
			"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: more, namespace: default, " +
				"labels: {kubernetes.io/service-name: mine}}\naddressType: IPv4\nendpoints: []", "",
		},
		"Kyma CRD": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
				"kymas.operator.kyma-project.io, labels: {a: b}}", "agent-definition",
		},
		"CRD of the module": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
				"mines.example.com}\nspec: {group: example.com, scope: Namespaced, names: {kind: Mine, plural: mines}, " +
				"versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}", "",
		},
		"agent's Lease": {
			"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: skr-agent.kyma-pull.dev, namespace: " +
				"kyma-system}", "agent-object",
		},
		"ConfigMap with the API server's CA": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: kyma-system}", "trusted-ca",
		},
		"CronJob that runs as the agent": {
			"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: mine, namespace: kyma-system}\nspec: {schedule: " +
				"'0 0 * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, serviceAccountName: " +
				"skr-agent, " + pods + "}}}}}", "agent-pods",
		},
		"ReplicationController that runs as the agent": {
			"apiVersion: v1\nkind: ReplicationController\nmetadata: {name: mine, namespace: kyma-system}\nspec: " +
				"{selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {serviceAccountName: skr-agent, " +
				pods + "}}}", "agent-pods",
		},
		"Pod with the agent's key in a projected volume": {
			podIn("kyma-system", ", volumes: [{name: v, projected: {sources: [{secret: {name: skr-agent-key}}]}}]"),
			"agent-pods",
		},
		"Pod with the agent's key in a CephFS volume": {
			podIn("kyma-system", ", volumes: [{name: v, cephfs: {monitors: [a], secretRef: {name: skr-agent-key}}}]"),
			"agent-pods",
		},
		"attachment of an inline volume with the agent's key": {
			attachmentOf("controllerPublishSecretRef: " + agentKey), "secret-reference",
		},
		"attachment of an inline volume with the module's Secret": {
			attachmentOf("controllerPublishSecretRef: {name: mine, namespace: kyma-system}"), "",
		},
		"volume that is deleted with the agent's key": {
			annotatedIn("v1/PersistentVolume",
				"volume.kubernetes.io/provisioner-deletion-secret-name: skr-agent-key, "+
					"volume.kubernetes.io/provisioner-deletion-secret-namespace: kyma-system"), "secret-reference",
		},
		"snapshot that is deleted with the agent's key": {
			annotatedIn("snapshot.storage.k8s.io/v1/VolumeSnapshotContent",
				"snapshot.storage.kubernetes.io/deletion-secret-name: skr-agent-key, "+
					"snapshot.storage.kubernetes.io/deletion-secret-namespace: kyma-system"), "secret-reference",
		},
		"snapshot group that is deleted with the agent's key": {
			annotatedIn("groupsnapshot.storage.k8s.io/v1/VolumeGroupSnapshotContent",
				"groupsnapshot.storage.kubernetes.io/deletion-secret-name: skr-agent-key, "+
					"groupsnapshot.storage.kubernetes.io/deletion-secret-namespace: kyma-system"), "secret-reference",
		},
		"snapshot that is deleted with the module's Secret": {
			annotatedIn("snapshot.storage.k8s.io/v1/VolumeSnapshotContent",
				"snapshot.storage.kubernetes.io/deletion-secret-name: mine, "+
					"snapshot.storage.kubernetes.io/deletion-secret-namespace: kyma-system"), "",
		},
		"Ingress with the agent's key":     {ingressIn("kyma-system", "skr-agent-key"), "agent-pods"},
		"Ingress with the module's Secret": {ingressIn("kyma-system", "mine"), ""},
		"Ingress in another namespace":     {ingressIn("mine", "skr-agent-key"), ""},
		"ControllerRevision with pods":     {revisionIn("kyma-system", "{Spec: {Template: {}}}"), "pods-like-agent"},
		"ControllerRevision without pods":  {revisionIn("kyma-system", "{spec: {replicas: 1}}"), ""},
		"Workflow that runs as the agent": {
			policyOf("argoproj.io/v1", "Workflow", inHome, "serviceAccountName: skr-agent"), "agent-references",
		},
		"ServiceAccount with the agent's key": {
			"{apiVersion: v1, kind: ServiceAccount, metadata: {name: mine, namespace: kyma-system}, secrets: [{name: " +
				"skr-agent-key}]}", "agent-pods",
		},
		"namespace kyma-system with selected nodes": {
			namespaceWith("kyma-system", "annotations: {openshift.io/node-selector: no=where}"), "shared-namespace",
		},
		"namespace of the module with selected nodes": {
			namespaceWith("mine", "annotations: {openshift.io/node-selector: no=where}"), "",
		},
		"Pod with the agent's label": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: mine, namespace: kyma-system, labels: " +
				"{app.kubernetes.io/name: skr-agent}}\nspec: {" + pods + "}", "pods-like-agent",
		},
		"HorizontalPodAutoscaler for the agent": {
			policyOf("autoscaling/v2", "HorizontalPodAutoscaler", inHome,
				"maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: skr-agent}"),
			"agent-scale",
		},
		"PodDisruptionBudget for all pods in kyma-system": {
			policyOf("policy/v1", "PodDisruptionBudget", inHome, "maxUnavailable: 0, selector: {}"), "agent-disruption",
		},
		"PodDisruptionBudget without a selector": {
			policyOf("policy/v1", "PodDisruptionBudget", inHome, "maxUnavailable: 0"), "",
		},
		"PodDisruptionBudget for the module": {
			policyOf("policy/v1", "PodDisruptionBudget", inHome,
				"maxUnavailable: 0, selector: {matchLabels: {app: keda}}"), "",
		},
		"ResourceQuota in kyma-system": {
			policyOf("v1", "ResourceQuota", inHome, "hard: {secrets: '0'}"), "namespace-limits",
		},
		"LimitRange in kyma-system": {
			policyOf("v1", "LimitRange", inHome, "limits: [{type: Container, max: {memory: 1Mi}}]"), "namespace-limits",
		},
		"ResourceQuota in the module's namespace": {
			policyOf("v1", "ResourceQuota", ", namespace: mine", "hard: {secrets: '0'}"), "",
		},
		"PriorityClass of the module": {
			priorityClass("mine", "value: 2000000"), "",
		},
		"PriorityClass with the agent's priority": {priorityClass("mine", "value: 1000000000"), "priority-class"},
		"PriorityClass for all pods":              {priorityClass("mine", "value: 1, globalDefault: true"), "priority-class"},
		"agent's PriorityClass":                   {priorityClass("skr-agent-1000000000", "value: 1"), "agent-object"},
		"ConfigMap with a missing owner": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, namespace: kyma-system, ownerReferences: " + gone +
				"}", "owner",
		},
		"webhook for all resources": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: " +
				"mine}\nwebhooks: [{name: a.example.org, sideEffects: None, admissionReviewVersions: [v1], " +
				"clientConfig: {url: 'https://127.0.0.1:1'}, rules: [{apiGroups: ['*'], apiVersions: ['*'], " +
				"resources: ['*'], operations: ['*']}]}]", "interception",
		},
	}
}

func TestAdmissionPoliciesEnforceGuardRules(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for kind, group := range map[string]string{
		"AdminNetworkPolicy":             "policy.networking.k8s.io/v1alpha1",
		"BaselineAdminNetworkPolicy":     "policy.networking.k8s.io/v1alpha1",
		"CiliumClusterwideNetworkPolicy": "cilium.io/v2", "GlobalNetworkPolicy": "projectcalico.org/v3",
		"ClusterNetworkPolicy":       "crd.antrea.io/v1beta1",
		"VolumeSnapshotContent":      "snapshot.storage.k8s.io/v1",
		"VolumeGroupSnapshotContent": "groupsnapshot.storage.k8s.io/v1",
	} {
		w.definesIn("Cluster", kind, group)
	}
	w.definesIn("Namespaced", "CiliumNetworkPolicy", "cilium.io/v2")
	w.definesIn("Namespaced", "Workflow", "argoproj.io/v1")
	policy, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "skr-agent", "policy", "protection.yaml"))
	require.NoError(t, err)
	for _, o := range objects(t, string(policy)) {
		require.NoError(t, w.client.Create(ctx, o))
	}
	require.NoError(t, w.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}))
	module := w.as("module", rule("*", "*", "get", "list", "create", "update", "patch", "delete"),
		rule("rbac.authorization.k8s.io", "*", "bind", "escalate"))
	apply := func(o *unstructured.Unstructured) error {
		return module.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("module"),
			client.ForceOwnership, client.DryRunAll)
	}
	w.eventually("the policies are enforced", func() bool {
		first := apply(
			w.object("apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-state, namespace: kyma-system}"))
		second := apply(
			w.object("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: skr-agent}\n"))
		return first != nil && second != nil
	})
	// compare returns the guard rule that refuses an object. It fails the test if the admission policies decide
	// differently.
	compare := func(t *testing.T, yaml string) string {
		o := w.object(yaml)
		var refusal *guard.Refusal
		refused := errors.As(guard.Check([]*unstructured.Unstructured{o}, home), &refusal)
		denied := apply(o)
		switch {
		case refused && guard.ContentOnlyReason(refusal.Rule) != "":
		case refused:
			require.ErrorContains(t, denied, "skr-agent-protection",
				"the policies accept an object that the guard refuses: %v\n%s", refusal, yaml)
		default:
			require.NoError(t, denied, "the policies refuse an object that the guard accepts:\n%s", yaml)
		}
		if refused {
			return refusal.Rule
		}
		return ""
	}
	seen := map[string]bool{}
	for name, c := range ruleCases() {
		t.Run(name, func(t *testing.T) {
			rule := compare(t, c.yaml)
			require.Equal(t, c.rule, rule)
			seen[rule] = true
		})
	}
	require.Greater(t, len(seen), 15, "the cases must cover most rules, but cover only: %v", seen)
	random := rand.New(rand.NewPCG(suite.Seed(t, 42), 42))
	for n := range 200 {
		yaml := generated(random)
		t.Run(fmt.Sprintf("generated object %d", n), func(t *testing.T) { compare(t, yaml) })
	}
}

// definesIn creates a CRD without a schema and waits until the API server serves its kind.
func (w *world) definesIn(scope, kind, apiVersion string) {
	w.Helper()
	group, version, _ := strings.Cut(apiVersion, "/")
	plural := strings.TrimSuffix(strings.ToLower(kind), "y") + "ies"
	require.NoError(w,
		w.client.Create(w.Context(),
			w.object("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: "+plural+
				"."+group+
				", annotations: {api-approved.kubernetes.io: unapproved}}\nspec: {group: "+group+", scope: "+scope+
				", names: {kind: "+kind+", plural: "+plural+"}, versions: [{name: "+version+
				", served: true, storage: true, schema: {openAPIV3Schema: {type: object, "+
				"x-kubernetes-preserve-unknown-fields: true}}}]}")))
	w.eventually(kind+" is served", func() bool {
		found := &unstructured.UnstructuredList{}
		found.SetAPIVersion(apiVersion)
		found.SetKind(kind + "List")
		return w.client.List(w.Context(), found) == nil
	})
}
