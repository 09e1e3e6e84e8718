package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}, Data: data}
}

func TestModuleDoesNotTakeOverForeignObjects(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	theirs := configMap("theirs", map[string]string{"is": "the tenant's"})
	require.NoError(t, w.client.Create(ctx, theirs))
	content := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n---\napiVersion: v1\nkind: " +
		"ConfigMap\nmetadata: {name: theirs}\ndata: {is: stolen}\n"
	gone := func(name string) {
		t.Helper()
		w.remove(name)
		w.eventually("Manifest "+name+" is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, name) })
	}

	t.Log("content with a foreign object is refused completely")
	w.wants("thief", content)
	w.state("thief", v1beta2.StateError,
		"nothing was applied: ConfigMap kyma-system/theirs already exists and does not belong to this module: "+
			"rename it in the module, delete it, or hand it over with the annotation "+
			"kyma-pull.dev/adopt=kyma-system/thief")
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "first"))
	require.True(t, w.exists(theirs, home, "theirs"))
	require.Equal(t, "the tenant's", theirs.Data["is"])
	require.Empty(t, w.manifest("thief").Status.Synced)
	gone("thief")
	require.True(t, w.exists(theirs, home, "theirs"))

	t.Log("an upgrade that adds a foreign object is refused")
	w.wants("thief", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n")
	w.state("thief", v1beta2.StateReady, "")
	w.wants("thief", content)
	w.state("thief", v1beta2.StateError, "ConfigMap kyma-system/theirs already exists")
	require.True(t, w.exists(theirs, home, "theirs"))
	require.Equal(t, "the tenant's", theirs.Data["is"])

	t.Log("an object that was handed over belongs to the module and is deleted with it")
	theirs.Annotations = map[string]string{v1beta2.AnnotationAdopt: "kyma-system/thief"}
	require.NoError(t, w.client.Update(ctx, theirs))
	w.state("thief", v1beta2.StateReady, "")
	require.True(t, w.exists(theirs, home, "theirs"))
	require.Equal(t, "stolen", theirs.Data["is"])
	gone("thief")
	require.False(t, w.exists(theirs, home, "theirs"))

	t.Log("objects that lifecycle-manager installed for the module are taken over, but not those for another module")
	installedByKyma := func(name, by string) {
		o := configMap(name, nil)
		o.Labels, o.Annotations = map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma},
			map[string]string{v1beta2.AnnotationOwnedBy: by}
		require.NoError(t, w.client.Create(ctx, o))
	}
	installedByKyma("first", lifecycleManagersMark("keda"))
	installedByKyma("theirs", lifecycleManagersMark("api-keda"))
	w.wants("keda", content)
	w.state("keda", v1beta2.StateError,
		"nothing was applied: ConfigMap kyma-system/theirs (of "+lifecycleManagersMark("api-keda")+") already exists")
	require.NoError(t, w.client.Delete(ctx, configMap("theirs", nil)))
	w.state("keda", v1beta2.StateReady, "")
	require.True(t, w.exists(theirs, home, "first"))
	require.Equal(t, "kyma-system/keda", theirs.Annotations[v1beta2.AnnotationOwnedBy])
}

// A module contains CRDs for kinds that the API server already serves. The agent must not assume that objects of
// these kinds do not exist.
func TestCRDInContentDoesNotHideForeignObjects(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	theirs := configMap("theirs", map[string]string{"is": "the tenant's"})
	require.NoError(t, w.client.Create(ctx, theirs))
	require.NoError(t, w.client.Create(ctx, objects(t, sampleCRD)[0]))
	custom := objects(t, "apiVersion: example.kyma-project.io/v1\nkind: Sample\nmetadata: {name: theirs, namespace: "+
		"kyma-system}\nspec: {is: the tenant's}\n")[0]
	w.eventually("the tenant's Sample is created", func() bool { return w.client.Create(ctx, custom.DeepCopy()) == nil })
	definition := func(name, group, kind, plural string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + "}\n" +
			"spec:\n  group: '" + group + "'\n  scope: Cluster\n  names: {kind: " + kind + ", plural: " + plural +
			"}\n  versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, " +
			"x-kubernetes-preserve-unknown-fields: true}}}\n---\n"
	}
	for name, c := range map[string]struct{ content, want string }{
		"built-in": {
			definition("configmaps.", "", "ConfigMap", "configmaps") +
				"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\ndata: {is: stolen}\n",
			`this CRD would define kinds of the built-in API group ""`,
		},
		"custom": {
			definition("fakes.example.kyma-project.io", "example.kyma-project.io", "Sample", "fakes") +
				"apiVersion: example.kyma-project.io/v1\nkind: Sample\nmetadata: {name: theirs}\nspec: {is: stolen}\n",
			"Sample kyma-system/theirs already exists and does not belong to this module",
		},
	} {
		w.wants(name, c.content)
		w.state(name, v1beta2.StateError, c.want)
		require.Empty(t, w.manifest(name).Status.Synced)
	}
	require.True(t, w.exists(theirs, home, "theirs"))
	require.Equal(t, "the tenant's", theirs.Data["is"])
	require.True(t, w.exists(custom, home, "theirs"))
	is, _, _ := unstructured.NestedString(custom.Object, "spec", "is")
	require.Equal(t, "the tenant's", is)
}

func TestRemovalDeletesOnlyOwnDefaultCR(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	named := func(o *unstructured.Unstructured) func(*v1beta2.Manifest) {
		return func(m *v1beta2.Manifest) {
			m.Spec.Resource, m.Spec.CustomResourcePolicy = o, v1beta2.PolicyCreateAndDelete
		}
	}
	remove := w.remove
	gone := func(name string) {
		t.Helper()
		w.eventually("Manifest "+name+" is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, name) })
	}

	t.Log("a tenant's Secret as default CR is not written and not deleted")
	require.NoError(t, w.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}))
	data := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "customer-data"},
		StringData: map[string]string{"a": "b"},
	}
	require.NoError(t, w.client.Create(ctx, data))
	const harmless = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: harmless}\n"
	w.wants("thief", harmless, named(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"namespace": "tenant", "name": "customer-data"}, "data": map[string]any{"a": "Yw=="},
	}}))
	w.eventually("the module is installed", func() bool { return planning.Installed(w.manifest("thief")) })
	remove("thief")
	gone("thief")
	require.True(t, w.exists(data, "tenant", "customer-data"))
	require.Equal(t, "b", string(data.Data["a"]))

	t.Log("another module's default CR is refused")
	w.wants("sample", sampleCRD+"\n"+harmless, withDefaultCR)
	w.state("sample", v1beta2.StateReady, "")
	cr := sample("", "")
	require.True(t, w.exists(cr, home, "default"))
	made := cr.GetUID()
	w.wants("thief", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second}\n", named(sample("default", home)))
	w.state("thief", v1beta2.StateError,
		"Sample kyma-system/default (of kyma-system/sample) already exists and does not belong to this module")
	remove("thief")
	gone("thief")
	w.wants("thief",
		"apiVersion: example.kyma-project.io/v1\nkind: Sample\nmetadata: {name: default}\nspec: {size: stolen}\n")
	w.state("thief", v1beta2.StateError,
		"Sample kyma-system/default already belongs to module sample: remove it from one of the two modules")
	remove("thief")
	gone("thief")
	require.True(t, w.exists(cr, home, "default"))
	require.Equal(t, made, cr.GetUID())
	require.Equal(t, "small", cr.Object["spec"].(map[string]any)["size"])

	t.Log("the module's own default CR is deleted with it")
	remove("sample")
	gone("sample")
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "harmless"))

	t.Log("a default CR that a user created stays, and blocks the removal until it is handed over")
	require.NoError(t, w.client.Create(ctx, objects(t, sampleCRD)[0]))
	crd := objects(t, sampleCRD)[0]
	w.eventually("the CRD is served", func() bool { return w.client.Create(ctx, sample("default", home)) == nil })
	require.True(t, w.exists(crd, "", crd.GetName()))
	crd.SetAnnotations(map[string]string{v1beta2.AnnotationAdopt: "kyma-system/sample"})
	require.NoError(t, w.client.Update(ctx, crd))
	w.wants("sample", sampleCRD+"\n"+harmless, func(m *v1beta2.Manifest) {
		withDefaultCR(m)
		require.NoError(t, unstructured.SetNestedField(m.Spec.Resource.Object, "large", "spec", "size"))
	})
	w.state("sample", v1beta2.StateReady, "")
	remove("sample")
	w.state("sample", v1beta2.StateWarning,
		"custom resources of this module still exist: delete them to remove the module: Sample kyma-system/default")
	require.True(t, w.exists(cr, home, "default"))
	require.Equal(t, "small", cr.Object["spec"].(map[string]any)["size"])
	cr.SetAnnotations(map[string]string{v1beta2.AnnotationAdopt: "kyma-system/sample"})
	require.NoError(t, w.client.Update(ctx, cr))
	gone("sample")
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "harmless"))
}
