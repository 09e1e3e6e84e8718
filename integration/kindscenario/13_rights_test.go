package kindscenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
	"github.com/kyma-pull/kyma-pull/integration/samplemodule"
)

// The other scenarios prove that the charts' permissions are sufficient. The agent in berlin has all permissions. The
// agent in tokyo has only the permissions in its chart and for its modules.
func TestChartsGrantOnlyNeededRights(t *testing.T) {
	startScenario(t)
	ctx := t.Context()
	publisher := impersonate(t, fleet.ControlPlane, sample.Namespace, "kcp-publisher")
	must(t, publisher.List(ctx, &v1beta2.KymaList{}, client.InNamespace(sample.Namespace)))
	agent := impersonate(t, stage.tokyo.ID, v1beta2.RuntimeNamespace, "skr-agent")
	must(t, agent.List(ctx, &v1beta2.ManifestList{}, client.InNamespace(v1beta2.RuntimeNamespace)))
	tenant := impersonate(t, stage.berlin.ID, metav1.NamespaceDefault, "default")
	agentKey := client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-key"}
	foreignKey := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "any"}
	for what, err := range map[string]error{
		"the publisher reads Secrets in kube-system": publisher.List(ctx, &corev1.SecretList{},
			client.InNamespace(metav1.NamespaceSystem)),
		"the publisher deletes from the catalog":      publisher.Delete(ctx, samplemodule.Good().Template()),
		"the publisher creates Pods":                  publisher.Create(ctx, podIn(sample.Namespace)),
		"the agent creates Pods in default":           agent.Create(ctx, podIn(metav1.NamespaceDefault)),
		"the agent creates Pods in its own namespace": agent.Create(ctx, podIn(v1beta2.RuntimeNamespace)),
		"the agent reads a Secret in kube-system":     agent.Get(ctx, foreignKey, &corev1.Secret{}),
		"the agent gives itself all permissions": agent.Create(ctx,
			clusterAdmin("escape", rbacv1.Subject{
				Kind: rbacv1.ServiceAccountKind, Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent",
			})),
		"a workload in the runtime reads the agent's key": tenant.Get(ctx, agentKey, &corev1.Secret{}),
		"a workload in the runtime writes Manifests":      tenant.Delete(ctx, beaconManifest()),
		"a workload in the runtime reads the module's CRs": tenant.Get(ctx,
			client.ObjectKeyFromObject(defaultBeacon()), defaultBeacon()),
		"a workload in the runtime changes the Kyma": tenant.Delete(ctx, &v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName},
		}),
		"a workload in the runtime reads the agent's lease": tenant.Get(ctx,
			client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent.kyma-pull.dev"},
			&coordinationv1.Lease{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: got error %v, want Forbidden", what, err)
		}
	}
}

// An admission policy must protect the agent's objects even from a user who has all permissions in kyma-system.
func TestChartProtectsTheAgentsObjectsFromTenants(t *testing.T) {
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	writer := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "writer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "default"},
		},
	}
	must(t, r.API.Create(ctx, writer))
	addCleanup(func(ctx context.Context) error { return r.API.Delete(ctx, writer) })
	tenant := impersonate(t, r.ID, metav1.NamespaceDefault, "default")
	until(t, "the tenant can write in kyma-system", func() (bool, string) {
		err := tenant.Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace,
				GenerateName: "mine-"}}, client.DryRunAll)
		return err == nil, fmt.Sprint(err)
	})
	for _, own := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "skr-agent-key"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "skr-agent-bootstrap"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "skr-agent"}},
	} {
		own.SetNamespace(v1beta2.RuntimeNamespace)
		if err := tenant.Delete(ctx, own); err == nil || !strings.Contains(err.Error(), "belongs to skr-agent") {
			t.Errorf("deletion of %T %s by a tenant: got error %v, want a refusal", own, own.GetName(), err)
		}
	}
	pod := podIn(v1beta2.RuntimeNamespace)
	pod.Spec.ServiceAccountName = "skr-agent"
	if err := tenant.Create(ctx, pod); err == nil || !strings.Contains(err.Error(), "pods may not run as skr-agent") {
		t.Errorf("a tenant's Pod with the agent's ServiceAccount: got error %v, want a refusal", err)
	}
}

// ownerReferenceModule returns a module with an object that is set as an owner of namespace kyma-system, so that
// Kubernetes' garbage collector would delete the namespace.
func ownerReferenceModule() sample.Version {
	return sample.Version{Module: "thief", Version: "1.0.0", Manifest: `apiVersion: v1
kind: Namespace
metadata:
  name: kyma-system
  ownerReferences:
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: gone, uid: 11111111-1111-1111-1111-111111111111}
`}
}

// Only kind clusters run the garbage collector. The test first proves that the collector runs: the collector must
// delete a ConfigMap whose owner does not exist.
func TestModuleCannotMakeKubernetesDeleteTheAgent(t *testing.T) {
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	must(t, stage.fleet.Offer(ctx, ownerReferenceModule()))
	must(t, stage.fleet.Release(ctx, "thief", ownerReferenceModule().Component(), sample.Channel("regular", "1.0.0")))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{Name: "thief", Managed: true})
	}))
	addCleanup(func(ctx context.Context) error {
		err := r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = spec.Modules[:len(spec.Modules)-1] })
		return errors.Join(err, r.UntilGone(ctx, "thief"))
	})
	until(t, "the agent refuses the owner reference of module thief", func() (bool, string) {
		kyma, err := r.Record(ctx)
		if err != nil {
			return false, err.Error()
		}
		return slices.ContainsFunc(kyma.Status.Modules, func(m v1beta2.ModuleStatus) bool {
			return m.Name == "thief" && m.State == v1beta2.StateError &&
				strings.Contains(m.Message, "metadata.ownerReferences would delete a namespace")
		}), fmt.Sprint(kyma.Status.Modules)
	})
	orphan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: "orphan", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "11111111-1111-1111-1111-111111111111",
		}},
	}}
	must(t, r.API.Create(ctx, orphan))
	until(t, "the garbage collector deletes the orphan", func() (bool, string) {
		err := r.API.Get(ctx, client.ObjectKeyFromObject(orphan), orphan)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	home := &corev1.Namespace{}
	must(t, r.API.Get(ctx, client.ObjectKey{Name: v1beta2.RuntimeNamespace}, home))
	if len(home.OwnerReferences) > 0 || !home.DeletionTimestamp.IsZero() {
		t.Errorf("namespace %s has owner references %v and deletion time %v, want none",
			home.Name, home.OwnerReferences, home.DeletionTimestamp)
	}
	must(t, r.UntilState(ctx, samplemodule.Module, stage.promoted, v1beta2.StateReady))
}

func podIn(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "escape"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "x", Image: "x"}},
		},
	}
}

func beaconManifest() *v1beta2.Manifest {
	return &v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: samplemodule.Module},
	}
}

func clusterAdmin(name string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
}

// employModules creates the ServiceAccount for modules in a runtime, with the permissions that module beacon needs.
func employModules(ctx context.Context, r *fleet.Runtime) error {
	all := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{rbacv1.VerbAll}}
	}
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: moduleAccount},
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: moduleAccount}, Rules: []rbacv1.PolicyRule{
		all("", "configmaps", "serviceaccounts"), all("apps", "deployments"),
		all("apiextensions.k8s.io", "customresourcedefinitions"),
		all(rbacv1.GroupName, "clusterroles", "clusterrolebindings"), all("scheduling.k8s.io", "priorityclasses"),
		all("beacon.kyma-pull.dev", "*"),
	}}
	binding := clusterAdmin(moduleAccount, rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name,
	})
	binding.RoleRef.Name = role.Name
	return errors.Join(r.API.Create(ctx, account), r.API.Create(ctx, role), r.API.Create(ctx, binding))
}

// impersonate returns a client with a ServiceAccount's permissions.
func impersonate(t *testing.T, cluster, namespace, account string) client.Client {
	t.Helper()
	kubeconfig := stage.kind.Kubeconfigs()[cluster]
	admin, err := fleet.Connect(kubeconfig, "")
	must(t, err)
	// The account must exist, because the API server also denies all requests from a missing account.
	must(t, admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: account}, &corev1.ServiceAccount{}))
	api, err := fleet.Connect(kubeconfig, "system:serviceaccount:"+namespace+":"+account)
	must(t, err)
	return api
}
