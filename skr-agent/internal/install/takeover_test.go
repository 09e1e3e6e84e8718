package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

const lifecycleManagerKeda = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: keda-priority-class}
value: 2000000
---
apiVersion: v1
kind: ConfigMap
metadata: {name: keda-old, namespace: kyma-system}
data: {of: the old version}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: keda-manager, namespace: kyma-system}
spec:
  selector: {matchLabels: {app: keda}}
  template:
    metadata: {labels: {app: keda}}
    spec:
      priorityClassName: keda-priority-class
      containers: [{name: manager, image: example.org/keda:1.7}]
`

const agentKeda = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: keda-manager, namespace: kyma-system}
spec:
  selector: {matchLabels: {app: keda}}
  template:
    metadata: {labels: {app: keda}}
    spec: {containers: [{name: manager, image: "example.org/keda:1.8"}]}
`

// installedByLifecycleManager applies content as lifecycle-manager would, with the given owner annotation.
func (w *world) installedByLifecycleManager(content, mark string) {
	w.Helper()
	for _, o := range objects(w.T, content) {
		o.SetLabels(map[string]string{
			v1beta2.LabelManagedBy: v1beta2.ManagedByKyma, "app.kubernetes.io/part-of": "Kyma",
		})
		o.SetAnnotations(
			map[string]string{
				v1beta2.AnnotationOwnedByDeprecated:                 mark,
				v1beta2.Group + "/managed-by-reconciler-disclaimer": "DO NOT EDIT",
			},
		)
		require.NoError(w,
			w.client.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(o), client.ForceOwnership,
				client.FieldOwner(v1beta2.FieldManagerApplier)))
	}
}

// inherits creates a Manifest with inherited objects in its inventory.
func (w *world) inherits(name, content string, list []v1beta2.Resource) {
	w.Helper()
	w.wants(name, content, func(m *v1beta2.Manifest) {
		require.NoError(w, w.installer.planner.records.Set(m, record.Record{Restoring: true}))
	})
	m := w.manifest(name)
	before := m.DeepCopy()
	m.Status.Synced, m.Status.State = list, v1beta2.StateProcessing
	require.NoError(w, w.client.Status().Patch(w.Context(), m, client.MergeFrom(before)))
	w.records(name, func(r *record.Record) { r.Restoring, r.Inherited = false, "sha256:of-the-list" })
}

func TestLifecycleManagerModuleIsAdoptedUpgradedAndReturned(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	mark := lifecycleManagersMark("keda")
	w.installedByLifecycleManager(lifecycleManagerKeda, mark)
	w.installedByLifecycleManager(
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio-config, namespace: kyma-system}",
		lifecycleManagersMark("istio"))
	require.NoError(t, w.client.Create(ctx, configMap("tenants", nil)))
	inherited := append(
		object.ResourcesOf(objects(t, lifecycleManagerKeda)),
		v1beta2.Resource{
			Name:             "istio-config",
			Namespace:        home,
			GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		},
		v1beta2.Resource{
			Name:             "tenants",
			Namespace:        home,
			GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		},
		v1beta2.Resource{
			Name:             "gone",
			Namespace:        home,
			GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		},
		v1beta2.Resource{
			Name:             "skr-agent-root",
			Namespace:        home,
			GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		},
		v1beta2.Resource{Name: home, GroupVersionKind: metav1.GroupVersionKind{Version: "v1", Kind: "Namespace"}},
	)
	w.installedByLifecycleManager(
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: skr-agent-root, namespace: kyma-system}", mark)
	d := &appsv1.Deployment{}
	require.True(t, w.exists(d, home, "keda-manager"))
	uid := d.UID
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64)
	d.Annotations["example.org/note"] = "a user's"
	require.NoError(t, w.client.Update(ctx, d, client.FieldOwner("kubectl-edit")))

	t.Log("the installed version is adopted without recreation, and lifecycle-manager owns no fields afterwards")
	w.inherits("keda", lifecycleManagerKeda, inherited)
	w.eventually("the Deployment is applied", func() bool {
		return w.exists(d, home, "keda-manager") && d.Annotations[v1beta2.AnnotationOwnedBy] == "kyma-system/keda"
	})
	w.becomesReady("keda", "keda-manager")
	require.True(t, w.exists(d, home, "keda-manager"))
	require.Equal(t, uid, d.UID)
	require.Equal(t, "kyma-system/keda", d.Annotations[v1beta2.AnnotationOwnedBy])
	require.NotContains(t, d.Annotations, v1beta2.AnnotationOwnedByDeprecated)
	require.Equal(t, "keda-priority-class", d.Spec.Template.Spec.PriorityClassName)
	for _, entry := range d.ManagedFields {
		require.NotEqual(t, v1beta2.FieldManagerApplier, entry.Manager)
	}
	require.Len(t, w.manifest("keda").Status.Synced, 3, "objects of other owners must be removed from the inventory")

	t.Log("an upgrade removes objects and fields that are not in the new version, and keeps a user's fields")
	w.wants("keda", agentKeda)
	w.eventually("the next version is applied", func() bool {
		return w.exists(d, home, "keda-manager") && d.Spec.Template.Spec.Containers[0].Image == "example.org/keda:1.8"
	})
	w.runs(home, "keda-manager")
	w.eventually("the objects of the old version are deleted", func() bool {
		return !w.exists(&schedulingv1.PriorityClass{}, "", "keda-priority-class") &&
			!w.exists(&corev1.ConfigMap{}, home, "keda-old")
	})
	require.Empty(t, d.Spec.Template.Spec.PriorityClassName)
	require.Zero(t, *d.Spec.Template.Spec.TerminationGracePeriodSeconds)
	require.Equal(t, "a user's", d.Annotations["example.org/note"])
	for _, name := range []string{"istio-config", "tenants", "skr-agent-root"} {
		require.True(t, w.exists(&corev1.ConfigMap{}, home, name), name)
	}

	t.Log("a module that is returned stays installed, and lifecycle-manager can remove the agent's fields")
	w.records("keda", func(r *record.Record) { r.Released = true })
	m := w.manifest("keda")
	before := m.DeepCopy()
	m.Annotations[v1beta2.AnnotationUnmanaged] = v1beta2.True
	require.NoError(t, w.client.Patch(ctx, m, client.MergeFrom(before)))
	w.remove("keda")
	w.eventually("the Manifest is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "keda") })
	require.True(t, w.exists(d, home, "keda-manager"))
	require.Equal(t, uid, d.UID)
	require.NotContains(t, d.Annotations, v1beta2.AnnotationOwnedBy)
	require.Equal(t, v1beta2.ManagedByKyma, d.Labels[v1beta2.LabelManagedBy])
	w.installedByLifecycleManager(agentKeda, mark)
	require.True(t, w.exists(d, home, "keda-manager"))
	require.NotContains(t, d.Labels, v1beta2.LabelModuleName,
		"the agent's fields must belong to lifecycle-manager, so that its apply removes them")
	require.Equal(t, "a user's", d.Annotations["example.org/note"])
}

func TestDefaultCRFromLifecycleManagerBelongsToModule(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	require.NoError(t, w.client.Create(ctx, objects(t, sampleCRD)[0]))
	cr := sample("default", home)
	w.eventually("lifecycle-manager creates the default CR", func() bool {
		cr = sample("default", home)
		return w.client.Create(ctx, cr, client.FieldOwner("resource.kyma-project.io/finalizer")) == nil
	})
	require.Empty(t, cr.GetLabels())
	crd := objects(t, sampleCRD)[0]
	require.True(t, w.exists(crd, "", crd.GetName()))
	crd.SetAnnotations(map[string]string{v1beta2.AnnotationAdopt: "kyma-system/sample"})
	require.NoError(t, w.client.Update(ctx, crd))

	t.Log("the agent adds its mark to the default CR and keeps the content")
	w.wants("sample", sampleCRD, withDefaultCR)
	w.eventually("the CR has the module's mark", func() bool {
		return w.exists(cr, home, "default") &&
			cr.GetAnnotations()[v1beta2.AnnotationOwnedBy] == "kyma-system/sample" &&
			cr.GetLabels()[v1beta2.LabelManagedBy] == v1beta2.ManagedByKyma
	})

	t.Log("the default CR of a returned module has no mark")
	w.records("sample", func(r *record.Record) { r.Released = true })
	m := w.manifest("sample")
	before := m.DeepCopy()
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.AnnotationUnmanaged, v1beta2.True)
	require.NoError(t, w.client.Patch(ctx, m, client.MergeFrom(before)))
	w.remove("sample")
	w.eventually("the Manifest is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "sample") })
	require.True(t, w.exists(cr, home, "default"))
	require.Empty(t, cr.GetLabels())
	require.Empty(t, cr.GetAnnotations())

	t.Log("the default CR is deleted with the module")
	require.True(t, w.exists(crd, "", crd.GetName()))
	crd.SetAnnotations(map[string]string{v1beta2.AnnotationAdopt: "kyma-system/sample"})
	require.NoError(t, w.client.Update(ctx, crd))
	w.wants("sample", sampleCRD, withDefaultCR)
	w.eventually("the module is installed", func() bool { return planning.Installed(w.manifest("sample")) })
	w.remove("sample")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "sample") })
	require.False(t, w.exists(cr, home, "default"))
}

func TestLifecycleManagerModuleIsAdoptedWithUpgrade(t *testing.T) {
	w := newWorld(t)
	w.installedByLifecycleManager(lifecycleManagerKeda, lifecycleManagersMark("keda"))
	w.inherits("keda", agentKeda, object.ResourcesOf(objects(t, lifecycleManagerKeda)))
	d := &appsv1.Deployment{}
	w.eventually("the Deployment is applied without the field of lifecycle-manager's version", func() bool {
		return w.exists(d, home, "keda-manager") && d.Annotations[v1beta2.AnnotationOwnedBy] == "kyma-system/keda" &&
			d.Spec.Template.Spec.PriorityClassName == ""
	})
	w.becomesReady("keda", "keda-manager")
	require.False(t, w.exists(&schedulingv1.PriorityClass{}, "", "keda-priority-class"))
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "keda-old"))

	t.Log("the removal deletes inherited objects, but not objects that only have lifecycle-manager's mark")
	w.installedByLifecycleManager("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: forged, namespace: kyma-system}",
		lifecycleManagersMark("keda"))
	w.remove("keda")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "keda") })
	require.False(t, w.exists(d, home, "keda-manager"))
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "forged"))
}

// lifecycle-manager's annotation marks the namespace, because the adopted version does not contain it.
func TestRemovalKeepsInheritedNamespaceWithUserObjects(t *testing.T) {
	w := newWorld(t)
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: keda-own}\n---\n"
	w.installedByLifecycleManager(namespace+agentKeda, lifecycleManagersMark("keda"))
	users := configMap("users", nil)
	users.Namespace = "keda-own"
	require.NoError(t, w.client.Create(t.Context(), users))
	w.inherits("keda", agentKeda, object.ResourcesOf(objects(t, namespace+agentKeda)))
	w.eventually("the Deployment is adopted", func() bool {
		d := &appsv1.Deployment{}
		return w.exists(d, home, "keda-manager") && d.Annotations[v1beta2.AnnotationOwnedBy] == "kyma-system/keda"
	})
	w.remove("keda")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "keda") })
	live := &corev1.Namespace{}
	require.True(t, w.exists(live, "", "keda-own"))
	require.Zero(t, live.DeletionTimestamp)
	require.False(t, w.exists(&appsv1.Deployment{}, home, "keda-manager"))
}
