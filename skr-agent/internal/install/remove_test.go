package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func TestOperatorIsRestoredDuringRemoval(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.wants("sample", sampleCRD+sampleRest+sampleExtra)
	w.runs(home, "sample-manager")
	w.state("sample", v1beta2.StateReady, "")
	bundled := sample("bundled", home)
	require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(bundled), bundled))
	bundled.SetFinalizers([]string{"example.org/slow"})
	require.NoError(t, w.client.Update(ctx, bundled))
	w.remove("sample")
	w.state("sample", v1beta2.StateDeleting, "it has finalizers: example.org/slow")
	for _, when := range []string{"while the agent runs", "after a restart of the agent"} {
		t.Log(when)
		was := &appsv1.Deployment{}
		require.True(t, w.exists(was, home, "sample-manager"))
		require.NoError(t, w.client.Delete(ctx, was))
		w.eventually("the operator is restored", func() bool {
			now := &appsv1.Deployment{}
			return w.exists(now, home, "sample-manager") && now.UID != was.UID
		})
		w.halt()
		w.start()
	}
	require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(bundled), bundled))
	bundled.SetFinalizers(nil)
	require.NoError(t, w.client.Update(ctx, bundled))
	w.eventually("the Manifest is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "sample") })
	require.False(t, w.exists(&appsv1.Deployment{}, home, "sample-manager"))
}

// While a removal waits for a finalizer or for users, another module takes over an object. The next agent process
// compares all objects that the removal still needs.
func TestRemovalDoesNotTakeBackMovedObjects(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	role := func(name, verb string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: " + name + "}\n" +
			"rules: [{apiGroups: [''], resources: [pods], verbs: [" + verb + "]}]\n---\n"
	}
	w.wants("held", aConfigMap("held")+role("first", "get"), version("1.0.0"))
	w.wants("used", sampleCRD+"\n---\n"+aConfigMap("used")+role("second", "get"), version("1.0.0"))
	w.wants("taker", aConfigMap("taker"), version("1.0.0"))
	for _, module := range []string{"held", "used", "taker"} {
		w.state(module, v1beta2.StateReady, "")
	}
	held, users := &corev1.ConfigMap{}, sample("users", home)
	require.True(t, w.exists(held, home, "held"))
	held.Finalizers = []string{"example.org/slow"}
	require.NoError(t, w.client.Update(ctx, held))
	require.NoError(t, w.client.Create(ctx, users))
	w.remove("held")
	w.remove("used")
	w.state("held", v1beta2.StateDeleting, "it has finalizers: example.org/slow")
	w.state("used", v1beta2.StateWarning, "custom resources of this module still exist")
	w.wants("taker", aConfigMap("taker")+role("first", "list")+role("second", "list"), version("2.0.0"))
	w.eventually("the objects are taken over", func() bool { return planning.Installed(w.manifest("taker")) })
	var before [2]*rbacv1.Role
	for n, name := range []string{"first", "second"} {
		before[n] = &rbacv1.Role{}
		require.True(t, w.exists(before[n], home, name))
		require.Equal(t, "kyma-system/taker", before[n].Annotations[v1beta2.AnnotationOwnedBy])
	}

	w.halt()
	require.NoError(t, w.client.Delete(ctx, configMap("used", nil)))
	w.start()
	w.eventually("the remaining objects are corrected", func() bool { return w.exists(&corev1.ConfigMap{}, home, "used") })
	require.True(t, w.exists(held, home, "held"))
	held.Finalizers = nil
	require.NoError(t, w.client.Update(ctx, held))
	require.NoError(t, w.client.Delete(ctx, users))
	for _, module := range []string{"held", "used"} {
		w.eventually(module+" is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, module) })
	}
	for _, was := range before {
		now := &rbacv1.Role{}
		require.True(t, w.exists(now, home, was.Name))
		require.Equal(t, was.ResourceVersion, now.ResourceVersion, was.Name)
	}
}

func TestModuleStaysIfManifestIsDeletedWithoutSignedRemoval(t *testing.T) {
	w := newWorld(t)
	w.wants("sample", sampleRest)
	w.runs(home, "sample-manager")
	w.state("sample", v1beta2.StateReady, "")
	m, foreign := w.manifest("sample"), record.Store{Signer: signer(t)}
	require.NoError(t,
		foreign.Update(t.Context(), w.client, nil, m, func(r *record.Record) { r.Removal = m.UID }))
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.state("sample", v1beta2.StateDeleting, "no bundle requests the removal of this module")
	require.True(t, w.exists(&appsv1.Deployment{}, home, "sample-manager"))
	w.records("sample", func(r *record.Record) { r.Removal = w.manifest("sample").UID })
	w.eventually("the Manifest is deleted after a bundle requests the removal", func() bool {
		return !w.exists(&v1beta2.Manifest{}, home, "sample")
	})
	require.False(t, w.exists(&appsv1.Deployment{}, home, "sample-manager"))
}

func TestModuleBecomesUnmanagedOnlyByASignedRecord(t *testing.T) {
	w := newWorld(t)
	ctx, config := t.Context(), &corev1.ConfigMap{}
	w.wants("sample", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n")
	w.state("sample", v1beta2.StateReady, "")

	t.Log("the annotation of another client does not stop the correction of drift")
	m := w.manifest("sample")
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.AnnotationUnmanaged, v1beta2.True)
	require.NoError(t, w.client.Update(ctx, m))
	require.True(t, w.exists(config, home, "one"))
	require.NoError(t, w.client.Delete(ctx, config))
	w.eventually("the object is restored", func() bool { return w.exists(config, home, "one") })
	require.NoError(t, w.client.Delete(ctx, w.manifest("sample")))
	w.state("sample", v1beta2.StateDeleting, "no bundle requests the removal of this module")
	require.True(t, w.exists(config, home, "one"))
	require.NotEmpty(t, config.Annotations[v1beta2.AnnotationOwnedBy])

	t.Log("without the annotation, the module still becomes unmanaged, and its objects stay")
	m = w.manifest("sample")
	delete(m.Annotations, v1beta2.AnnotationUnmanaged)
	require.NoError(t, w.client.Update(ctx, m))
	w.records("sample", func(r *record.Record) { r.Removal, r.Unmanaged = m.UID, true })
	w.eventually("the Manifest is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "sample") })
	require.True(t, w.exists(config, home, "one"))
	require.Empty(t, config.Annotations[v1beta2.AnnotationOwnedBy])
}

// The agent refuses two modules that contain a ConfigMap or an admission policy of the module named owner.
func TestRefusedModuleDoesNotBlockRemovalOfOtherModules(t *testing.T) {
	w := newWorld(t)
	const (
		settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
		policy   = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n" +
			"metadata: {name: strict}\nspec:\n  matchConstraints:\n    resourceRules:\n    - {" +
			"apiGroups: [example.org], apiVersions: [v1], " +
			"operations: [CREATE], resources: [widgets]}\n  validations:\n  - {expression: 'true'}\n"
		ofTheAgent = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: skr-agent, namespace: kyma-system}\n"
	)
	w.wants("owner", settings+"---\n"+policy)
	w.state("owner", v1beta2.StateReady, "")

	t.Log("a module that changes the agent is refused and takes nothing over")
	w.wants("refused", settings+"---\n"+ofTheAgent)
	w.state("refused", v1beta2.StateError, "ServiceAccount kyma-system/skr-agent")
	w.remove("owner")
	w.eventually("Manifest owner is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "owner") })
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "settings"))

	t.Log("a module in conflict with a third module keeps no policy in force, but objects that can hold data wait")
	w.wants("owner", settings+"---\n"+policy)
	w.state("owner", v1beta2.StateReady, "")
	const thirds = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-third}\n"
	w.wants("third", thirds)
	w.state("third", v1beta2.StateReady, "")
	w.wants("conflicting", thirds+"---\n"+settings+"---\n"+policy)
	w.state("conflicting", v1beta2.StateError, "")
	kept := &corev1.ConfigMap{}
	require.True(t, w.exists(kept, home, "settings"))
	w.wants("owner", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n")
	w.eventually("the dropped policy is gone", func() bool {
		return !w.exists(&admissionv1.ValidatingAdmissionPolicy{}, "", "strict")
	})
	w.wants("third", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other-of-third}\n")
	w.eventually("the object belongs to the other module once the conflict is resolved", func() bool {
		moved := &corev1.ConfigMap{}
		return w.exists(moved, home, "settings") && moved.UID == kept.UID &&
			moved.Annotations[v1beta2.AnnotationOwnedBy] == "kyma-system/conflicting"
	})
}

func TestRemovedInventoryEntriesAreRestored(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	clearInventory := func(module string) {
		m := w.manifest(module)
		before := m.DeepCopy()
		m.Status.Synced = nil
		require.NoError(t, w.client.Status().Patch(ctx, m, client.MergeFrom(before)))
	}
	for _, module := range []string{"leaving", "dropping", "staying"} {
		w.wants(module, aConfigMap(module)+aConfigMap(module+"-rest"), version("1.0.0"))
		w.state(module, v1beta2.StateReady, "")
	}
	clearInventory("leaving")
	w.remove("leaving")
	clearInventory("dropping")
	w.wants("dropping", aConfigMap("dropping-rest"), version("2.0.0"))
	clearInventory("staying")
	require.NoError(t, w.client.Delete(ctx, configMap("staying", nil)))
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "leaving") })
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "leaving"))
	w.eventually("the upgrade is applied", func() bool {
		m := w.manifest("dropping")
		return planning.Installed(m) && m.Status.State == v1beta2.StateReady && m.Spec.Version == "2.0.0"
	})
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "dropping"))
	w.eventually("drift is reverted", func() bool { return w.exists(&corev1.ConfigMap{}, home, "staying") })
	require.Len(t, w.manifest("staying").Status.Synced, 2)
}

// The removal of a module stops the watches that no other module needs.
func TestClearedInventoryKeepsItsWatches(t *testing.T) {
	w := newWorld(t)
	for _, module := range []string{"leaving", "staying"} {
		w.wants(module, aConfigMap(module), version("1.0.0"))
		w.state(module, v1beta2.StateReady, "")
	}
	m := w.manifest("staying")
	before := m.DeepCopy()
	m.Status.Synced = nil
	require.NoError(t, w.client.Status().Patch(t.Context(), m, client.MergeFrom(before)))
	w.eventually("the agent reads the cleared inventory", func() bool {
		cached := &v1beta2.Manifest{}
		return w.installer.planner.cached.Get(t.Context(), client.ObjectKeyFromObject(m), cached) == nil &&
			len(cached.Status.Synced) == 0
	})
	w.remove("leaving")
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "leaving") })
	require.NoError(t, w.client.Delete(t.Context(), configMap("staying", nil)))
	w.eventually("drift is reverted", func() bool { return w.exists(&corev1.ConfigMap{}, home, "staying") })
}

// While the agent is stopped, another client clears the inventories. The next agent process must restore them from
// Options.Inventories.
func TestInventoryClearedDuringARestartIsRestored(t *testing.T) {
	w := newWorld(t)
	for _, module := range []string{"leaving", "dropping"} {
		w.wants(module, aConfigMap(module)+aConfigMap(module+"-rest"), version("1.0.0"))
		w.state(module, v1beta2.StateReady, "")
	}
	w.halt()
	w.options.Inventories = record.NewInventories()
	leaving := w.manifest("leaving")
	for _, module := range []string{"leaving", "dropping"} {
		m := w.manifest(module)
		w.options.Inventories.Restore(m, m.Status.Synced)
		before := m.DeepCopy()
		m.Status.Synced = nil
		require.NoError(t, w.client.Status().Patch(t.Context(), m, client.MergeFrom(before)))
	}
	w.remove("leaving")
	w.wants("dropping", aConfigMap("dropping-rest"), version("2.0.0"))
	w.start()
	w.eventually("the module is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "leaving") })
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "leaving"))
	w.eventually("the upgrade is applied", func() bool {
		m := w.manifest("dropping")
		return planning.Installed(m) && m.Status.State == v1beta2.StateReady && m.Spec.Version == "2.0.0"
	})
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "dropping"))
	require.Len(t, w.manifest("dropping").Status.Synced, 1)
	leaving.Status.Synced = nil
	require.Empty(t, w.options.Inventories.Missing(leaving), "the inventory of a removed module is dropped")
}
