package install

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/internal/render"
)

// as returns a client for a user with exactly these permissions in all namespaces.
func (w *world) as(user string, rules ...rbacv1.PolicyRule) client.Client {
	w.Helper()
	w.grants("rights-of-"+user[strings.LastIndex(user, ":")+1:], rbacv1.Subject{Kind: rbacv1.UserKind, Name: user},
		rules...)
	config := rest.CopyConfig(w.config)
	config.Impersonate.UserName = user
	c, err := client.New(config, client.Options{Scheme: w.scheme})
	require.NoError(w, err)
	return c
}

// grants replaces the permissions of a subject.
func (w *world) grants(name string, to rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	w.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if err := w.client.Create(w.Context(), role); err != nil {
		require.NoError(w, w.client.Update(w.Context(), role))
		return
	}
	require.NoError(w, w.client.Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{to},
	}))
}

// defines creates a CRD without a schema and waits until the API server serves its kind.
func (w *world) defines(kind, group string) {
	w.Helper()
	plural := strings.ToLower(kind) + "s"
	name := plural + "." + group
	definition := w.object("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
		name +
		", annotations: {api-approved.kubernetes.io: unapproved}}\nspec: {group: " + group +
		", scope: Namespaced, names: {kind: " + kind + ", plural: " + plural +
		"}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: " +
		"{type: object, x-kubernetes-preserve-unknown-fields: true}}}]}")
	require.NoError(w, w.client.Create(w.Context(), definition))
	w.eventually(name+" is served", func() bool {
		found := &unstructured.UnstructuredList{}
		found.SetAPIVersion(group + "/v1")
		found.SetKind(kind + "List")
		return w.client.List(w.Context(), found) == nil
	})
}

func (w *world) object(yaml string) *unstructured.Unstructured {
	w.Helper()
	found, err := render.Render(render.Input{Content: []byte(yaml), Packed: "oci-ref"})
	require.NoError(w, err)
	require.Len(w, found, 1)
	return found[0]
}

func TestTenantsCannotChangeTheAgent(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	policy, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "skr-agent", "policy", "protection.yaml"))
	require.NoError(t, err)
	for _, o := range objects(t, string(policy)) {
		require.NoError(t, w.client.Create(ctx, o))
	}
	all := rule("*", "*", "get", "list", "create", "update", "patch", "delete", "deletecollection")
	tenant := w.as("tenant", all)
	agent := w.as("system:serviceaccount:kyma-system:skr-agent", all)
	operator := w.as("operator", all, rule("kyma-pull.dev", "agents", "change"))

	state := "apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-state, namespace: kyma-system, labels: {is: " +
		"state}}\n"
	require.NoError(t, agent.Create(ctx, w.object(state)))
	// The API server enforces policies with a short delay.
	w.eventually("the policies are enforced", func() bool {
		first := tenant.Delete(ctx, w.object(state), client.DryRunAll)
		second := tenant.Create(ctx,
			w.object("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: skr-agent}\n"),
			client.DryRunAll)
		return first != nil && second != nil
	})

	// All writes are dry runs, so that every client starts from the same state.
	written := func(c client.Client, yaml string) error {
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(w.object(yaml)), client.FieldOwner("test"),
			client.ForceOwnership, client.DryRunAll)
	}
	workload := func(kind, version, spec string) string {
		return "apiVersion: " + version + "\nkind: " + kind +
			"\nmetadata: {name: mine, namespace: kyma-system}\nspec: " + spec
	}
	const containers = "containers: [{name: a, image: b}]"
	ofPods := func(labels string) string {
		return "{selector: {matchLabels: {" + labels + "}}, template: {metadata: {labels: {" + labels + "}}, spec: {" +
			containers + "}}}"
	}
	revision := func(data string) string {
		return "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: mine-0, namespace: " +
			"kyma-system}\nrevision: 1\ndata: " + data
	}
	autoscaler := func(target string) string {
		return workload("HorizontalPodAutoscaler", "autoscaling/v2",
			"{maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: "+target+"}}")
	}
	vertical := func(target string) string {
		return workload("VerticalPodAutoscaler", "autoscaling.k8s.io/v1", "{targetRef: "+target+"}")
	}
	podNamed := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}}
	}
	proven := client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"kyma-pull.dev/proven-image":"evil@sha256:00"}}}`))
	alike := client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app.kubernetes.io/name":"skr-agent"}}}`))
	resized := client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"2m"}}}]}}`))
	for _, name := range []string{"skr-agent", "theirs"} {
		require.NoError(t,
			agent.Create(ctx,
				w.object("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: "+name+
					", namespace: kyma-system}\nspec: "+ofPods("a: b"))))
	}
	for _, name := range []string{"skr-agent-0", "theirs"} {
		require.NoError(t,
			agent.Create(ctx,
				w.object("apiVersion: v1\nkind: Pod\nmetadata: {name: "+name+
					", namespace: kyma-system}\nspec: {containers: [{name: a, image: b, resources: {requests: {cpu: "+
					"1m}}}]}")))
	}
	w.defines("VerticalPodAutoscaler", "autoscaling.k8s.io")
	w.defines("Scaler", "example.org")
	const ownTokenSecret = "a token Secret for the agent's ServiceAccount"
	refused := map[string]struct {
		do   func(client.Client) error
		want string
	}{
		"a change to the agent's state": {
			func(c client.Client) error {
				return written(c, state+"data: {a: YQ==}\n")
			}, "secrets skr-agent-state belongs to skr-agent",
		},
		"the deletion of the agent's state": {
			func(c client.Client) error {
				return c.Delete(ctx, w.object(state), client.DryRunAll)
			}, "secrets skr-agent-state belongs to skr-agent",
		},
		"the deletion of all Secrets, including the agent's state": {func(c client.Client) error {
			return c.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(home), client.MatchingLabels{"is": "state"},
				client.DryRunAll)
		}, "secrets skr-agent-state belongs to skr-agent"},
		"a Secret with stored content": {func(c client.Client) error {
			return written(c,
				"apiVersion: v1\nkind: Secret\nmetadata: {name: kyma-pull-content-x, namespace: kyma-system}")
		}, "belongs to skr-agent"},
		"a Manifest": {func(c client.Client) error {
			return written(c,
				"apiVersion: operator.kyma-project.io/v1beta2\nkind: Manifest\nmetadata: {name: x, namespace: "+
					"kyma-system}\nspec: {remote: true, install: {name: x, source: {}}}")
		}, "only skr-agent can write Manifests"},
		"a change to the CA that the agent trusts": {func(c client.Client) error {
			return written(c,
				"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: kyma-system}\ndata: "+
					"{ca.crt: x}")
		}, "Kubernetes writes this ConfigMap"},
		"a Pod that runs as the agent": {func(c client.Client) error {
			return written(c, workload("Pod", "v1", "{serviceAccountName: skr-agent, "+containers+"}"))
		}, "pods may not run as skr-agent"},
		"a Deployment that runs as the agent": {func(c client.Client) error {
			return written(c,
				workload("Deployment", "apps/v1",
					"{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: "+
						"{serviceAccountName: skr-agent, "+containers+"}}}"))
		}, "pods may not run as skr-agent"},
		"a CronJob that runs as the agent": {func(c client.Client) error {
			return written(c,
				workload("CronJob", "batch/v1",
					"{schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, "+
						"serviceAccountName: skr-agent, "+containers+"}}}}}"))
		}, "pods may not run as skr-agent"},
		"a Pod with the agent's key in a Secret volume": {func(c client.Client) error {
			return written(c,
				workload("Pod", "v1", "{"+containers+", volumes: [{name: v, secret: {secretName: skr-agent-key}}]}"))
		}, "pods may not read the Secrets of skr-agent"},
		"a Pod with the agent's key in a projected volume": {func(c client.Client) error {
			return written(c,
				workload("Pod", "v1",
					"{"+containers+
						", volumes: [{name: v, projected: {sources: [{configMap: {name: a}}, {secret: {name: "+
						"skr-agent-key}}]}}]}"))
		}, "pods may not read the Secrets of skr-agent"},
		"a DaemonSet with the agent's key in an environment variable": {func(c client.Client) error {
			return written(c,
				workload("DaemonSet", "apps/v1",
					"{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: "+
						"[{name: a, image: b, env: [{name: A, value: b}, {name: B, valueFrom: {secretKeyRef: {name: "+
						"skr-agent-key, key: k}}}]}]}}}"))
		}, "pods may not read the Secrets of skr-agent"},
		"a Job with a Secret of the agent in envFrom": {func(c client.Client) error {
			return written(c,
				workload("Job", "batch/v1",
					"{template: {spec: {restartPolicy: Never, initContainers: [{name: i, image: b, envFrom: "+
						"[{secretRef: {name: skr-agent-bootstrap}}]}], "+containers+"}}}"))
		}, "pods may not read the Secrets of skr-agent"},
		"a Pod with the agent's Secret in imagePullSecrets": {func(c client.Client) error {
			return written(c,
				workload("Pod", "v1",
					"{"+containers+", imagePullSecrets: [{name: mine}, {name: skr-agent-bootstrap}]}"))
		}, "pods may not read the Secrets of skr-agent"},
		"a ServiceAccount with the agent's Secret in imagePullSecrets": {func(c client.Client) error {
			return written(c,
				"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: "+
					"kyma-system}\nimagePullSecrets: [{name: skr-agent-bootstrap}]")
		}, "pods may not read the Secrets of skr-agent"},
		"a Pod with the agent's key in a CSI volume": {func(c client.Client) error {
			return written(c,
				workload("Pod", "v1",
					"{"+containers+
						", volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: skr-agent-key}}}]}"))
		}, "pods may not read the Secrets of skr-agent"},
		"a change to the Deployment's annotations through subresource status": {func(c client.Client) error {
			return c.Status().
				Patch(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "skr-agent"}},
					proven, client.DryRunAll)
		}, "deployments skr-agent belongs to skr-agent"},
		"a change to the status of the agent's Pod": {func(c client.Client) error {
			return c.Status().
				Patch(ctx, podNamed("skr-agent-0"),
					client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`)), client.DryRunAll)
		}, "pods skr-agent-0 belongs to skr-agent"},
		"a resize of the agent's Pod": {func(c client.Client) error {
			return c.SubResource("resize").Patch(ctx, podNamed("skr-agent-0"), resized, client.DryRunAll)
		}, "pods skr-agent-0 belongs to skr-agent"},
		"a Pod with the agent's label": {func(c client.Client) error {
			return written(c,
				"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kyma-system, labels: "+
					"{app.kubernetes.io/name: skr-agent}}\nspec: {"+containers+"}")
		}, "only pods and ReplicaSets of skr-agent may have the label"},
		"the agent's label on an existing Pod": {
			func(c client.Client) error {
				return c.Patch(ctx, podNamed("theirs"), alike, client.DryRunAll)
			}, "only pods and ReplicaSets of skr-agent may have the label",
		},
		"the agent's label on an existing Pod through subresource status": {func(c client.Client) error {
			return c.Status().Patch(ctx, podNamed("theirs"), alike, client.DryRunAll)
		}, "only pods and ReplicaSets of skr-agent may have the label"},
		"the agent's label in a Pod's binding": {func(c client.Client) error {
			binding := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/name": "skr-agent"}},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "one"},
			}
			return c.SubResource("binding").Create(ctx, podNamed("theirs"), binding, client.DryRunAll)
		}, "only pods and ReplicaSets of skr-agent may have the label"},
		"a ReplicaSet with the agent's label": {func(c client.Client) error {
			return written(c,
				"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: x, namespace: kyma-system, labels: "+
					"{app.kubernetes.io/name: skr-agent}}\nspec: "+ofPods("a: b"))
		}, "only pods and ReplicaSets of skr-agent may have the label"},
		"a ReplicaSet whose pods have the agent's label": {func(c client.Client) error {
			return written(c, workload("ReplicaSet", "apps/v1", ofPods("app.kubernetes.io/name: skr-agent")))
		}, "only pods and ReplicaSets of skr-agent may have the label"},
		"a ControllerRevision with a pod template": {func(c client.Client) error {
			return written(c, revision("{spec: {template: {$patch: replace, spec: {serviceAccountName: skr-agent}}}}"))
		}, "only Kubernetes writes ControllerRevisions"},
		"a ControllerRevision with a pod template in upper case": {func(c client.Client) error {
			return written(c, revision("{Spec: {TEMPLATE: {spec: {ServiceAccountName: skr-agent}}}}"))
		}, "only Kubernetes writes ControllerRevisions"},
		"a HorizontalPodAutoscaler for the agent": {
			func(c client.Client) error {
				return written(c, autoscaler("skr-agent"))
			}, "only operators scale skr-agent",
		},
		"a VerticalPodAutoscaler for the agent": {
			func(c client.Client) error {
				return written(c, vertical("{name: skr-agent}"))
			}, "only operators scale skr-agent",
		},
		"a change to pod security through the namespace's subresource status": {func(c client.Client) error {
			return c.Status().Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}},
				client.RawPatch(types.MergePatchType,
					[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`)),
				client.DryRunAll)
		}, "pod security of this namespace"},
		"a generated name with a reserved prefix": {func(c client.Client) error {
			return c.Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: home, GenerateName: "skr-agent-"}},
				client.DryRunAll)
		}, "belongs to skr-agent"},
		"a token request for the agent's ServiceAccount": {func(c client.Client) error {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "skr-agent"}}
			return c.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{})
		}, "serviceaccounts skr-agent belongs to skr-agent"},
		ownTokenSecret: {func(c client.Client) error {
			return written(c,
				"apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: kyma-system, annotations: "+
					"{kubernetes.io/service-account.name: skr-agent}}\ntype: kubernetes.io/service-account-token")
		}, "only skr-agent may get tokens of its ServiceAccount"},
		"a change to the agent's ClusterRole": {func(c client.Client) error {
			return written(c,
				"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: skr-agent}")
		}, "clusterroles skr-agent belongs to skr-agent"},
		"the deletion of the Manifest CRD": {func(c client.Client) error {
			return c.Delete(ctx,
				w.object(
					"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: "+
						"manifests.operator.kyma-project.io}"), client.DryRunAll)
		}, "only operators change the CRDs of skr-agent"},
		"a change to the namespace's pod security": {func(c client.Client) error {
			return written(c,
				"apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: "+
					"{pod-security.kubernetes.io/enforce: privileged}}")
		}, "pod security of this namespace"},
		"the deletion of the namespace": {func(c client.Client) error {
			return c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}}, client.DryRunAll)
		}, "skr-agent runs in this namespace"},
		"a ModuleTemplate from the catalog": {func(c client.Client) error {
			return written(c,
				"apiVersion: operator.kyma-project.io/v1beta2\nkind: ModuleTemplate\nmetadata: {name: x, namespace: "+
					"kyma-system, labels: {operator.kyma-project.io/managed-by: kyma}}\nspec: {descriptor: {}}")
		}, "only skr-agent writes the module catalog"},
	}
	secured := w.object(
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, labels: {pod-security.kubernetes.io/enforce: " +
			"baseline}}")
	require.NoError(t,
		operator.Apply(ctx, client.ApplyConfigurationFromUnstructured(secured), client.FieldOwner("operator")))
	require.NoError(t,
		operator.Create(ctx,
			w.object("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: skr-agent, namespace: kyma-system}")))
	for name, c := range refused {
		t.Run("a tenant is refused "+name, func(t *testing.T) {
			err := c.do(tenant)
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, c.want)
		})
	}
	for who, c := range map[string]client.Client{"the agent": agent, "an operator": operator,
		"a client with all permissions": w.as("holder-of-all", rule("*", "*", "*"))} {
		for name, r := range refused {
			if who == "the agent" && name == ownTokenSecret {
				continue // policy skr-agent-accounts refuses this Secret, see TestAgentGetsNoTokensForOtherAccounts
			}
			t.Run(who+" is not refused "+name, func(t *testing.T) { require.NoError(t, r.do(c)) })
		}
	}
	for name, yaml := range map[string]string{
		"a Secret of its own": "apiVersion: v1\nkind: Secret\nmetadata: {name: mine, namespace: kyma-system}",
		"a Secret with a reserved name in another namespace": "apiVersion: v1\nkind: Secret\nmetadata: " +
			"{name: skr-agent-state, namespace: default}",
		"the runtime's Kyma": "apiVersion: operator.kyma-project.io/v1beta2\nkind: Kyma\nmetadata: {name: " +
			"default, namespace: kyma-system}\nspec: {channel: fast}",
		"a ModuleTemplate of its own": "apiVersion: operator.kyma-project.io/v1beta2\nkind: ModuleTemplate\n" +
			"metadata: {name: own, namespace: kyma-system}\nspec: {descriptor: {}}",
		"a Pod of its own": workload("Pod", "v1", "{serviceAccountName: other, "+containers+
			", volumes: [{name: v, secret: {secretName: mine}}]}"),
		"another label of the namespace": "apiVersion: v1\nkind: Namespace\nmetadata: {name: kyma-system, " +
			"labels: {team: blue, pod-security.kubernetes.io/enforce: baseline}}",
		"a HorizontalPodAutoscaler for its own Deployment": autoscaler("mine"),
		"a VerticalPodAutoscaler for its own Deployment":   vertical("{name: mine}"),
		"a custom resource with fields targetRef and scaleTargetRef": workload("Scaler", "example.org/v1",
			"{targetRef: skr-agent, scaleTargetRef: {name: skr-agent}}"),
		"a ControllerRevision without a pod template": revision("{spec: {replicas: 1}}"),
		"a ConfigMap with keys spec and template": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, " +
			"namespace: kyma-system}\ndata: {spec: text, template: text}",
		"a Deployment of its own": workload("Deployment", "apps/v1", ofPods("app.kubernetes.io/name: mine")),
		"a ServiceAccount of its own": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: mine, namespace: " +
			"kyma-system}\nimagePullSecrets: [{name: mine}]",
		"a ClusterRole of its own": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " +
			"mine}",
	} {
		t.Run("a tenant may write "+name, func(t *testing.T) { require.NoError(t, written(tenant, yaml)) })
	}
	t.Run("a tenant may write the status of its own Deployment and Pod", func(t *testing.T) {
		require.NoError(t,
			tenant.Status().
				Patch(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "theirs"}}, proven,
					client.DryRunAll))
		require.NoError(t,
			tenant.Status().
				Patch(ctx, podNamed("theirs"),
					client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`)), client.DryRunAll))
		require.NoError(t, tenant.SubResource("resize").Patch(ctx, podNamed("theirs"), resized, client.DryRunAll))
	})
	t.Run("a tenant may delete a collection of its own Secrets", func(t *testing.T) {
		mine := w.object(
			"apiVersion: v1\nkind: Secret\nmetadata: {name: mine, namespace: kyma-system, labels: {is: mine}}")
		require.NoError(t, tenant.Create(ctx, mine))
		require.NoError(t,
			tenant.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(home), client.MatchingLabels{"is": "mine"}))
		require.False(t, w.exists(mine, home, "mine"))
	})
	t.Run("Kubernetes' controllers are not refused", func(t *testing.T) {
		config := rest.CopyConfig(w.config)
		config.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:kube-system:generic-garbage-collector",
		}
		collector, err := client.New(config, client.Options{Scheme: w.scheme})
		require.NoError(t, err)
		require.NoError(t, collector.Delete(context.WithoutCancel(ctx), w.object(state), client.DryRunAll))
	})
}
