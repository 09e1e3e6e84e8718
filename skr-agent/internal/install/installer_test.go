package install

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func TestModuleIsInstalledCorrectedUpgradedAndRemoved(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.wants("sample", sampleCRD+sampleRest+sampleExtra, withDefaultCR)
	w.state("sample", v1beta2.StateProcessing, "Deployment kyma-system/sample-manager")
	w.runs(home, "sample-manager")
	w.state("sample", v1beta2.StateReady, "")

	m := w.manifest("sample")
	require.Len(t, m.Status.Synced, 6, "want all objects except the shared namespace, got %v", m.Status.Synced)
	require.True(t, planning.Installed(m))
	config := &corev1.ConfigMap{}
	require.True(t, w.exists(config, home, "sample-config"))
	require.Equal(t, "kyma-system/sample", config.Annotations[v1beta2.AnnotationOwnedBy])
	namespace := &corev1.Namespace{}
	require.True(t, w.exists(namespace, "", home))
	require.Equal(t, "here", namespace.Labels["sample"])
	require.Empty(t, namespace.Annotations[v1beta2.AnnotationOwnedBy])
	cr := sample("", "")
	require.True(t, w.exists(cr, home, "default"))

	t.Log("drift of the agent's fields is corrected, and other fields stay")
	config.Data["key"], config.Data["theirs"] = "changed", "stays"
	require.NoError(t, w.client.Update(ctx, config))
	w.eventually("the value is restored", func() bool {
		return w.exists(config, home, "sample-config") && config.Data["key"] == "value"
	})
	require.Equal(t, "stays", config.Data["theirs"])
	w.eventually("the metric counts the correction", func() bool {
		var counted dto.Metric
		require.NoError(t, driftCorrected.WithLabelValues("sample", "ConfigMap").Write(&counted))
		return counted.GetCounter().GetValue() > 0
	})

	t.Log("a change under the agent's field manager is corrected")
	changed := false
	w.eventually("the value is restored after a change", func() bool {
		require.True(t, w.exists(config, home, "sample-config"))
		if config.Data["key"] == "value" && changed {
			return true
		}
		stolen := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": time.Now().String()},
			"metadata": map[string]any{
				"namespace": home, "name": "sample-config",
				"annotations": map[string]any{v1beta2.AnnotationOwnedBy: "kyma-system/sample"},
				"labels": map[string]any{
					v1beta2.LabelManagedBy: v1beta2.ManagedByKyma, v1beta2.LabelModuleName: "sample",
				},
			},
		}}
		require.NoError(t, w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(stolen), client.ForceOwnership,
			client.FieldOwner("kyma-pull")))
		changed = true
		return false
	})

	t.Log("a removed label and a deleted object are restored")
	delete(config.Labels, v1beta2.LabelManagedBy)
	require.NoError(t, w.client.Update(ctx, config))
	w.eventually("the label is restored", func() bool {
		return w.exists(config, home, "sample-config") && config.Labels[v1beta2.LabelManagedBy] == v1beta2.ManagedByKyma
	})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "sample-role"}}
	require.NoError(t, w.client.Delete(ctx, role))
	w.eventually("the role is restored", func() bool { return w.exists(role, "", "sample-role") })

	t.Log("a field of another client causes no write")
	w.state("sample", v1beta2.StateReady, "")
	config.Annotations["example.org/note"] = "mine"
	require.NoError(t, w.client.Update(ctx, config))
	version := config.ResourceVersion

	t.Log("the default CR keeps users' changes, and is created again after its deletion")
	require.NoError(t, unstructured.SetNestedField(cr.Object, "large", "spec", "size"))
	require.NoError(t, w.client.Update(ctx, cr))
	require.NoError(t, w.client.Delete(ctx, sample("default", home)))
	w.eventually("the default CR is created again", func() bool { return w.exists(cr, home, "default") })
	require.NoError(t, unstructured.SetNestedField(cr.Object, "Error", "status", "state"))
	require.NoError(t, w.client.Status().Update(ctx, cr))
	w.state("sample", v1beta2.StateError, "Sample kyma-system/default: state is Error")
	require.NoError(t, unstructured.SetNestedField(cr.Object, "Ready", "status", "state"))
	require.NoError(t, w.client.Status().Update(ctx, cr))
	w.state("sample", v1beta2.StateReady, "")
	require.True(t, w.exists(config, home, "sample-config"))
	require.Equal(t, version, config.ResourceVersion)

	t.Log("drift during a downtime of the agent is corrected after its start")
	w.halt()
	config.Data["key"] = "changed"
	require.NoError(t, w.client.Update(ctx, config))
	w.start()
	w.eventually("the value is restored", func() bool {
		return w.exists(config, home, "sample-config") && config.Data["key"] == "value"
	})

	t.Log("missing or broken content changes nothing")
	w.wantsDigest("sample", digest.FromString("nowhere"))
	w.state("sample", v1beta2.StateError, "content is not stored")
	w.wants("sample", "a: [")
	w.state("sample", v1beta2.StateError, "content, document 1")
	w.wants("sample",
		sampleRest+"apiVersion: v1\nkind: Service\nmetadata: {name: broken}\nspec: {ports: [{port: 99999999}]}")
	w.state("sample", v1beta2.StateError, "Service kyma-system/broken")
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "sample-extra"))

	t.Log("an object of an unknown kind does not block the others")
	w.wants("sample", sampleCRD+sampleRest+"apiVersion: example.org/v1\nkind: Nothing\nmetadata: {name: x}\n---\n"+
		aConfigMap("beside")+sampleExtra)
	w.state("sample", v1beta2.StateError, "Nothing x (example.org/v1): the API server does not serve this kind")
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "beside"))
	require.True(t, w.exists(&corev1.ConfigMap{}, home, "sample-extra"))

	t.Log("an upgrade prunes removed objects, except a CRD that is in use")
	w.wants("sample", sampleRest)
	w.eventually("the object is pruned", func() bool { return !w.exists(&corev1.ConfigMap{}, home, "sample-extra") })
	w.state("sample", v1beta2.StateWarning, "is kept while it is in use by Sample kyma-system/default")
	require.Len(t, w.manifest("sample").Status.Synced, 4)

	t.Log("the removal waits for users' objects, and then deletes the module in order")
	w.wants("sample", sampleCRD+sampleRest)
	w.state("sample", v1beta2.StateReady, "")
	users := sample("users", "default")
	require.NoError(t, w.client.Create(ctx, users))
	w.remove("sample")
	w.state("sample", v1beta2.StateWarning, "Sample default/users")
	require.True(t, w.exists(&appsv1.Deployment{}, home, "sample-manager"))
	require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(cr), cr))
	cr.SetFinalizers([]string{"example.org/slow"})
	require.NoError(t, w.client.Update(ctx, cr))
	require.NoError(t, w.client.Delete(ctx, users))
	w.state("sample", v1beta2.StateDeleting, "it has finalizers: example.org/slow")
	require.True(t, w.exists(&appsv1.Deployment{}, home, "sample-manager"))

	t.Log("the operator is restored during the removal, with and without a restart")
	manager := func() types.UID {
		found := &appsv1.Deployment{}
		require.True(t, w.exists(found, home, "sample-manager"))
		return found.UID
	}
	for range 2 {
		before := manager()
		require.NoError(
			t,
			w.client.Delete(ctx, &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "sample-manager"},
			}),
		)
		w.eventually("the operator is restored", func() bool {
			return w.exists(&appsv1.Deployment{}, home, "sample-manager") && manager() != before
		})
		w.halt()
		w.start()
	}
	require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(cr), cr))
	cr.SetFinalizers(nil)
	require.NoError(t, w.client.Update(ctx, cr))
	w.eventually("the Manifest is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "sample") })
	require.False(t, w.exists(&appsv1.Deployment{}, home, "sample-manager"))
	require.False(t, w.exists(&rbacv1.ClusterRole{}, "", "sample-role"))
	require.True(t, w.exists(namespace, "", home))
	require.True(t, namespace.DeletionTimestamp.IsZero())
}

func TestModulesDoNotChangeForeignObjects(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	one := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n"
	shared := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\n"
	w.wants("first", one+shared)
	w.state("first", v1beta2.StateReady, "")

	t.Log("a second module with the same object is refused")
	w.wants("second", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n"+shared)
	w.state("second", v1beta2.StateError, "ConfigMap kyma-system/shared already belongs to module first")
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "two"))

	t.Log("an object that lost its mark is not pruned")
	w.halt()
	config := &corev1.ConfigMap{}
	require.True(t, w.exists(config, home, "shared"))
	delete(config.Annotations, v1beta2.AnnotationOwnedBy)
	require.NoError(t, w.client.Update(ctx, config))
	w.wants("first", one)
	w.start()
	w.eventually("the inventory has one object", func() bool { return len(w.manifest("first").Status.Synced) == 1 })
	require.True(t, w.exists(config, home, "shared"))

	t.Log("another module gets the object only after an adoption")
	w.state("second", v1beta2.StateError,
		"nothing was applied: ConfigMap kyma-system/shared already exists and does not belong to this module")
	config.Annotations = map[string]string{v1beta2.AnnotationAdopt: "kyma-system/second"}
	require.NoError(t, w.client.Update(ctx, config))
	w.state("second", v1beta2.StateReady, "")

	t.Log("a module with label skip-reconciliation is not reconciled")
	m := w.manifest("first")
	m.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.True
	require.NoError(t, w.client.Update(ctx, m))
	require.True(t, w.exists(config, home, "one"))
	require.NoError(t, w.client.Delete(ctx, config))
	m = w.manifest("first")
	delete(m.Labels, v1beta2.LabelSkipReconciliation)
	require.NoError(t, w.client.Update(ctx, m))
	w.eventually("the object is restored", func() bool { return w.exists(config, home, "one") })

	t.Log("the objects of an unmanaged module stay without the agent's marks")
	m = w.manifest("first")
	w.records("first", func(r *record.Record) { r.Removal, r.Unmanaged = m.UID, true })
	w.state("first", v1beta2.StateUnmanaged, "")
	require.NoError(t, w.client.Delete(ctx, m))
	w.eventually("the Manifest is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "first") })
	require.True(t, w.exists(config, home, "one"))
	require.Empty(t, config.Annotations[v1beta2.AnnotationOwnedBy])
	require.Empty(t, config.Labels[v1beta2.LabelManagedBy])
}

func TestCrashDuringInstallationOrphansNoObjects(t *testing.T) {
	w := newWorld(t)
	many := func(prefix string) string {
		var text strings.Builder
		for n := range 300 {
			fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%03d}\n", prefix, n)
		}
		return text.String()
	}
	w.wants("sample", many("old"))
	w.eventually("some objects exist", func() bool { return w.exists(&corev1.ConfigMap{}, home, "old-020") })
	w.halt()
	require.False(t, planning.Installed(w.manifest("sample")), "the agent must stop during the installation")

	w.wants("sample", many("new"))
	w.start()
	w.state("sample", v1beta2.StateReady, "")
	var found corev1.ConfigMapList
	require.NoError(t,
		w.client.List(t.Context(), &found, client.InNamespace(home),
			client.MatchingLabels{v1beta2.LabelModuleName: "sample"}))
	require.Len(t, found.Items, 300)
	for _, o := range found.Items {
		require.True(t, strings.HasPrefix(o.Name, "new-"), o.Name)
	}

	w.remove("sample")
	w.eventually("half of the objects are deleted", func() bool {
		return !w.exists(&corev1.ConfigMap{}, home, "new-150")
	})
	w.halt()
	w.start()
	w.eventually("the Manifest is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "sample") })
	require.NoError(t,
		w.client.List(t.Context(), &found, client.InNamespace(home),
			client.MatchingLabels{v1beta2.LabelModuleName: "sample"}))
	require.Empty(t, found.Items)
}

func TestRealModulesAreInstalledAndRemoved(t *testing.T) {
	for module, c := range map[string]struct{ component, file string }{
		"keda":              {"keda-1.8.0", "keda-manager.yaml"},
		"template-operator": {"template-operator-1.0.5", "template-operator.yaml"},
	} {
		t.Run(module, func(t *testing.T) {
			blobs, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "realworld", "ctf", c.component,
				"blobs", "*"))
			require.NoError(t, err)
			if len(blobs) == 0 {
				t.Skipf("needs component %s in shared/realworld", c.component)
			}
			w := newWorld(t)
			for _, blob := range blobs {
				data, err := os.ReadFile(blob)
				require.NoError(t, err)
				if strings.HasPrefix(string(data), c.file) {
					w.wants(module, string(data))
				}
			}
			w.state(module, v1beta2.StateProcessing, "Deployment")
			for _, r := range w.manifest(module).Status.Synced {
				if r.Kind == "Deployment" {
					w.runs(r.Namespace, r.Name)
				}
			}
			w.state(module, v1beta2.StateReady, "")
			w.remove(module)
			w.eventually("the Manifest is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, module) })
		})
	}
}
