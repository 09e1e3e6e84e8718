package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// underAccounts runs both programs with exactly the permissions from their charts. The agent installs modules with a
// separate ServiceAccount.
var underAccounts = fleet.Options{
	LeaderElect: true,
	PublisherFlags: slices.Concat(withSecrets.PublisherFlags, []string{
		"--set", "runtime-namespace-label=istio-injection=enabled",
	}),
	PublisherRights: withSecrets.PublisherRights,
	AgentRights:     []string{"agent.yaml", "secrets.yaml", "module-account.yaml", "self-upgrade.yaml"},
}

// grant grants a user cluster-wide permissions in the runtime.
func grant(t *testing.T, r *fleet.Runtime, name, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	must(t, r.API.Create(t.Context(), role))
	must(t, r.API.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}},
	}))
}

func writing(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{group}, Resources: resources, Verbs: []string{
			"get", "list", "watch", "create", "update", "patch", "delete",
		},
	}
}

// overreachingModule returns a module with an allowed object and a forbidden object.
func overreachingModule(name, object string) sample.Version {
	return sample.Version{
		Module: name, Version: "1.0.0", Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: harmless-" + name +
			", namespace: kyma-system}\n---\n" + object,
	}
}

// untilRefused waits until the runtime's Manifest and the control plane's Kyma report why a module is not installed.
func untilRefused(t *testing.T, r *fleet.Runtime, module string, words ...string) {
	t.Helper()
	hasAll := func(text string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	}
	until(t, 60*time.Second, fmt.Sprintf("control plane and runtime report that %s is refused: %q", module, words),
		func() (bool, string) {
			manifest := &v1beta2.Manifest{}
			if err := r.API.Get(t.Context(), inKyma(module), manifest); err != nil {
				return false, err.Error()
			}
			ready := meta.FindStatusCondition(manifest.Status.Conditions, v1beta2.ConditionReady)
			if ready == nil || ready.Status != metav1.ConditionFalse || !hasAll(ready.Message) {
				return false, fmt.Sprintf("Manifest: %+v", manifest.Status.Conditions)
			}
			record, err := r.Record(t.Context())
			if err != nil {
				return false, err.Error()
			}
			for _, m := range record.Status.Modules {
				if m.Name == module {
					return m.State == v1beta2.StateError && hasAll(m.Message),
						fmt.Sprintf("control plane: %s: %s", m.State, m.Message)
				}
			}
			return false, "the control plane's Kyma does not list the module"
		})
}

func TestModulesHaveOnlyTheirAccountsRights(t *testing.T) {
	ctx := t.Context()
	options := underAccounts
	// Use the flags after "skr-agent run" in the guide.
	options.AgentFlags = wordsOf(t, blocksOf(t, "docs/guides/rights.md", 5)[3])[2:]
	f := newFleet(t, options)
	r, err := f.AddRuntime(ctx, "one", "regular", "scaler", "mailer")
	must(t, err)
	must(t, fleet.ApplyChartFile(ctx, r.API, "skr-agent", "policy", "protection.yaml"))

	t.Run("modules without rights are not applied and the missing permissions are reported", func(t *testing.T) {
		untilRefused(t, r, "mailer", "nothing was applied", "system:serviceaccount:kyma-system:modules may not",
			"deployments.apps")
		if _, err := settings(ctx, r); !apierrors.IsNotFound(err) {
			t.Errorf("the scaler's settings were created: %v", err)
		}
	})
	t.Run("modules with permissions are installed and report their health", func(t *testing.T) {
		grant(t, r, "modules", "system:serviceaccount:kyma-system:modules",
			writing("", "configmaps", "secrets", "serviceaccounts"), writing("apps", "deployments"),
			writing("scheduling.k8s.io", "priorityclasses"),
			writing("apiextensions.k8s.io", "customresourcedefinitions"),
			writing(rbacv1.GroupName, "clusterroles", "clusterrolebindings"),
			writing("sample.kyma-pull.dev", "scalers", "scalers/status"))
		must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
		must(t, r.UntilState(ctx, "scaler", "1.7.0", v1beta2.StateReady))
		must(t, r.API.Get(ctx, inKyma("default"), scalerCR()))
	})
	t.Run("agent labels its namespace", func(t *testing.T) {
		home := &corev1.Namespace{}
		must(t, r.API.Get(ctx, types.NamespacedName{Name: v1beta2.RuntimeNamespace}, home))
		if home.Labels[v1beta2.LabelManagedBy] != v1beta2.ManagedByKyma || home.Labels["istio-injection"] != "enabled" {
			t.Errorf("kyma-system has unexpected labels %v", home.Labels)
		}
	})
	t.Run("runtime receives its Secret", func(t *testing.T) {
		must(t, f.Control.Create(ctx, secretFor("one", "mailer", "btp-credentials", "opensesame")))
		untilSecret(t, r, "btp-credentials", "opensesame")
	})
	t.Run("agent reports changes for a Watcher", func(t *testing.T) {
		must(t, f.Control.Create(ctx, watcher("settings", "", "configmaps", bundle.FieldSpec)))
		untilState(t, f, "settings", v1beta2.StateReady)
		probes := 0
		until(t, 30*time.Second, "the change is reported in an Event", func() (bool, string) {
			probes++
			must(t, r.API.Create(ctx, config(fmt.Sprintf("probe-%d", probes), map[string]string{"team": "shop"})))
			notes, err := watchEvents(ctx, f)
			return len(notes) > 0, fmt.Sprint(err)
		})
	})
	t.Run("agent corrects drift", func(t *testing.T) {
		config, err := settings(ctx, r)
		must(t, err)
		edited := config.DeepCopy()
		edited.Data["level"] = "debug"
		must(t, r.API.Patch(ctx, edited, client.MergeFrom(config)))
		deployment := &appsv1.Deployment{}
		must(t, r.API.Get(ctx, inKyma("scaler-manager"), deployment))
		must(t, r.API.Delete(ctx, deployment))
		until(t, 30*time.Second, "both objects are restored", func() (bool, string) {
			config, err := settings(ctx, r)
			if err != nil {
				return false, err.Error()
			}
			again := &appsv1.Deployment{}
			err = r.API.Get(ctx, inKyma("scaler-manager"), again)
			return err == nil && again.UID != deployment.UID && again.Status.ReadyReplicas == 1 &&
				config.Data["level"] == "info", fmt.Sprint(err, config.Data)
		})
	})
	t.Run("modules that exceed their permissions are refused completely", func(t *testing.T) {
		refuseOverreaching(t, f, r)
	})
	t.Run("API server protects the agent from tenants", func(t *testing.T) { refuseTenant(t, r) })
	t.Run("upgrade prunes and removal deletes all objects", func(t *testing.T) {
		must(t, f.CreatePolicy(ctx, "scaler", stages(func(canaries, others *v1alpha1.Wave) {
			canaries.Deadline.Duration, others.Deadline.Duration = 10*time.Minute, 10*time.Minute
			canaries.AllowEmpty = true
		})))
		promote(t, f, "1.8.0")
		must(t, f.UntilRollout(ctx, firstRollout, "the rollout succeeds", rolledOut(v1alpha1.RolloutSucceeded)))
		must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
		until(t, 20*time.Second, "the PriorityClass is pruned", func() (bool, string) {
			err := r.API.Get(ctx, client.ObjectKey{Name: "scaler-priority"}, &schedulingv1.PriorityClass{})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
		deleteKyma(t, f, r)
		untilForgotten(t, r, 60*time.Second)
		untilEmpty(t, r)
	})
	t.Run("agent manages its own Deployment", func(t *testing.T) {
		deployAgent(t, r, agentImage("1.0"))
		upgraded := deployed(t, r)
		before := upgraded.DeepCopy()
		upgraded.Spec.Template.Spec.Containers[0].Image = agentImage("2.0")
		must(t, r.API.Patch(ctx, upgraded, client.MergeFrom(before)))
		becomePod(t, r, "agent-2", agentImage("2.0"))
		until(t, 60*time.Second, "the agent counts the first start of an unproven image", func() (bool, string) {
			annotations := deployed(t, r).Annotations
			return annotations["kyma-pull.dev/unproven-starts"] == "agent-2:1", fmt.Sprint(annotations)
		})
	})
	t.Run("charts grant exactly the permissions that the programs use", func(t *testing.T) {
		rights, err := f.PublisherRights()
		must(t, err)
		checkRequests(t, "publisher", rights, func(right string) bool {
			return isLaterOrElsewhere(right) || right == "list secrets"
		})
		rights, err = r.AgentRights()
		must(t, err)
		checkRequests(t, "agent", rights, func(right string) bool {
			// The agent uses these permissions only if the catalog changes.
			return isLaterOrElsewhere(right) || right == "patch moduletemplates.operator.kyma-project.io" ||
				isOnlyForSomeSecrets(right) ||
				// Server-side apply of a missing object needs the verbs create and patch.
				right == "create customresourcedefinitions.apiextensions.k8s.io"
		})
	})
	t.Run("agent cannot exceed its permissions", func(t *testing.T) { refuseAgent(t, r) })
	t.Run("publisher cannot exceed its permissions", func(t *testing.T) { refusePublisher(t, f) })
}

// isLaterOrElsewhere reports whether the programs need a permission only in situations that this scenario does not
// create.
func isLaterOrElsewhere(right string) bool {
	return strings.HasPrefix(right, "patch events") || strings.HasPrefix(right, "patch promotionpolicies") ||
		right == "delete rollouts.fleet.kyma-project.io" ||
		strings.HasPrefix(right, "list ") && strings.HasSuffix(right, ".kyma-project.io")
}

// isOnlyForSomeSecrets reports whether a permission is for one of the agent's Secrets and is not used in this scenario.
// For example, an agent that can watch all kinds does not watch single Secrets.
func isOnlyForSomeSecrets(right string) bool {
	return slices.ContainsFunc([]string{
		"list secrets skr-agent-", "watch secrets skr-agent-", "update secrets skr-agent-identity",
		"delete secrets kyma-pull-content-slot-", "update secrets btp-credentials", "delete secrets btp-credentials",
	}, func(later string) bool { return strings.HasPrefix(right, later) })
}

func refuseAgent(t *testing.T, r *fleet.Runtime) {
	ctx := t.Context()
	agent, err := fleet.Connect(r.AgentKubeconfig(), "")
	must(t, err)
	labeled := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	for what, err := range map[string]error{
		"deploy": agent.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "x"},
		}),
		"delete a module's object": agent.Delete(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "scaler-settings"},
		}),
		"read a module's Secret": agent.Get(ctx, inKyma("keda-credentials"), &corev1.Secret{}),
		"delete a module's Secret": agent.Delete(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "keda-credentials"},
		}),
		"grant permissions":         agent.Create(ctx, clusterAdmin()),
		"change another definition": agent.Patch(ctx, definition("scalers.sample.kyma-pull.dev"), labeled),
		"change another namespace": agent.Patch(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, labeled),
		"write Secrets in another namespace": agent.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"},
		}),
		"write another program's lease": agent.Patch(ctx,
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "x"}},
			labeled),
	} {
		forbidden(t, "the agent", what, err)
	}
	for _, other := range []string{"system:serviceaccount:kyma-system:others",
		"system:serviceaccount:kube-system:modules", "admin"} {
		as, err := fleet.Connect(r.AgentKubeconfig(), other)
		must(t, err)
		forbidden(t, "the agent", "act as "+other, as.Get(ctx, inKyma("scaler-settings"), &corev1.ConfigMap{}))
	}
}

func refusePublisher(t *testing.T, f *fleet.Fleet) {
	ctx := t.Context()
	publisher, err := fleet.Connect(f.PublisherKubeconfig(), "")
	must(t, err)
	must(t, publisher.List(ctx, &v1beta2.KymaList{}, client.InNamespace(sample.Namespace)))
	labeled := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	for what, err := range map[string]error{
		"read Kymas in another namespace":   publisher.List(ctx, &v1beta2.KymaList{}, client.InNamespace("default")),
		"create a Kyma":                     publisher.Create(ctx, fleet.NewKyma("mine", "regular")),
		"delete a Kyma":                     publisher.Delete(ctx, fleet.NewKyma("mine", "regular")),
		"change the catalog":                publisher.Patch(ctx, sample.Mailer("1.0.0").Template(), labeled),
		"read Secrets in another namespace": publisher.List(ctx, &corev1.SecretList{}, client.InNamespace("default")),
		"create a Secret": publisher.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: "x"},
		}),
		"read another namespace": publisher.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{}),
		"change a definition":    publisher.Patch(ctx, definition("kymas.operator.kyma-project.io"), labeled),
		"grant permissions":      publisher.Create(ctx, clusterAdmin()),
	} {
		forbidden(t, "the publisher", what, err)
	}
}

func refuseOverreaching(t *testing.T, f *fleet.Fleet, r *fleet.Runtime) {
	const binding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: " +
		"mine}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}\nsubjects: [{kind: " +
		"ServiceAccount, name: %s, namespace: kyma-system}]\n"
	const own = "the name is reserved for the agent"
	cases := map[string]struct {
		object   string
		messages []string
	}{
		"climber": {
			fmt.Sprintf(binding, "cluster-admin", "modules"), []string{
				"kyma-system:modules may not write ClusterRoleBinding mine",
				"attempting to grant RBAC permissions not currently held",
			},
		},
		"raider": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: elsewhere, namespace: default}\n---\napiVersion: " +
				"batch/v1\nkind: Job\nmetadata: {name: x, namespace: default}\nspec: {template: {spec: " +
				"{restartPolicy: Never, containers: [{name: a, image: b}]}}}", []string{"may not create jobs.batch"},
		},
		"attacker": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: skr-agent-state, namespace: kyma-system}\ndata: {}",
			[]string{"Secret kyma-system/skr-agent-state", own},
		},
		"impostor": {
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: skr-agent, namespace: kyma-system}",
			[]string{"ServiceAccount kyma-system/skr-agent", own},
		},
		"usurper": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: skr-agent}\nrules: []",
			[]string{"ClusterRole skr-agent", own},
		},
		"benefactor": {
			fmt.Sprintf(binding, "scaler-manager", "skr-agent"), []string{
				"ClusterRoleBinding mine", "changes the permissions of the agent",
			},
		},
		"spy": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: spy, namespace: kyma-system}\nspec: {selector: " +
				"{matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {" +
				"containers: [{name: a, image: b}], volumes: [{name: v, secret: {secretName: skr-agent-key}}]}}}",
			[]string{"Deployment kyma-system/spy", "Secret skr-agent-key of the agent"}},
		"squatter": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mailer-settings, namespace: kyma-system}\ndata: " +
				"{version: stolen}", []string{"ConfigMap kyma-system/mailer-settings already belongs to module mailer"},
		},
	}
	ctx := t.Context()
	state := &corev1.Secret{}
	must(t, r.API.Get(ctx, inKyma("skr-agent-key"), state))
	for name, c := range cases {
		v := overreachingModule(name, c.object)
		must(t, f.Offer(ctx, v))
		must(t, f.Release(ctx, name, v.Component(), sample.Channel("regular", v.Version)))
		must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
			spec.Modules = append(spec.Modules, managed(name))
		}))
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			untilRefused(t, r, name, c.messages...)
			if err := r.API.Get(ctx, inKyma("harmless-"+name), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
				t.Errorf("the refused module was partially applied: %v", err)
			}
		})
	}
	again := &corev1.Secret{}
	must(t, r.API.Get(ctx, inKyma("skr-agent-key"), again))
	if again.ResourceVersion != state.ResourceVersion {
		t.Error("a module changed the agent's key")
	}
	must(t, r.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool {
			_, refused := cases[m.Name]
			return refused
		})
	}))
	for name := range cases {
		must(t, r.UntilGone(ctx, name))
	}
}

// refuseTenant checks that a tenant with write access to kyma-system cannot take over the agent.
func refuseTenant(t *testing.T, r *fleet.Runtime) {
	ctx := t.Context()
	grant(t, r, "tenants", "tenant", writing("", "secrets", "configmaps", "pods"),
		writing("operator.kyma-project.io", "*"))
	tenant, err := fleet.Connect(r.Kubeconfig(), "tenant")
	must(t, err)
	state := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-state"}}
	must(t, tenant.Get(ctx, client.ObjectKeyFromObject(state), state))
	forgotten := client.RawPatch(types.MergePatchType, []byte(`{"data":{"manifest.json":null}}`))
	until(t, 20*time.Second, "the policy takes effect", func() (bool, string) {
		err := tenant.Patch(ctx, state.DeepCopy(), forgotten, client.DryRunAll)
		return apierrors.IsForbidden(err) &&
			strings.Contains(err.Error(), "secrets skr-agent-state belongs to skr-agent"), fmt.Sprint(err)
	})
	manifest := &v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "mailer"}}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-key"}}
	forbidden(t, "a tenant", "edit the state", tenant.Patch(ctx, state, forgotten))
	forbidden(t, "a tenant", "delete the key", tenant.Delete(ctx, key))
	forbidden(t, "a tenant", "request another version",
		tenant.Patch(ctx, manifest, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"9.9.9"}}`))))
	must(t, tenant.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "tenants-own"},
	}))
	kyma, err := r.Kyma(ctx)
	must(t, err)
	before := kyma.DeepCopy()
	kyma.Labels = map[string]string{"tenant": "may"}
	must(t, tenant.Patch(ctx, kyma, client.MergeFrom(before)))
}

// checkRequests checks that the API server denied none of a program's requests, and that the program used each of its
// permissions. noOccasion returns true for permissions that the program does not have to use.
func checkRequests(t *testing.T, program string, rights fleet.Rights, noOccasion func(right string) bool) {
	t.Helper()
	lacksNothing(t, program, rights)
	for _, right := range rights.Unused {
		if !noOccasion(right) {
			t.Errorf("the %s has an unused right: %s", program, right)
		}
	}
}

func lacksNothing(t *testing.T, program string, rights fleet.Rights) {
	t.Helper()
	for _, right := range rights.Lacked {
		t.Errorf("the %s was denied a request: %s", program, right)
	}
}

func forbidden(t *testing.T, who, what string, err error) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s tries to %s: got error %v, want Forbidden", who, what, err)
	}
}

func clusterAdmin() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "mine"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "anybody"}},
	}
}

func definition(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name},
	}}
}
