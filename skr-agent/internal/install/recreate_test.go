package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

func TestObjectsWithOtherErrorsAreNotRecreated(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: guarded, namespace: kyma-system}\ndata: " +
		"{version: \"1\"}\n"
	definition := strings.Replace(sampleCRD, "{name: samples",
		"{annotations: {kyma-pull.dev/recreate: with-data}, name: samples", 1)
	w.wants("guarded", definition+config, version("1.0.0"))
	w.eventually("version 1.0.0 is applied", func() bool {
		return record.RunningVersion(w.manifest("guarded")) == "1.0.0"
	})
	w.eventually("the CRD is served", func() bool { return w.client.Create(ctx, sample("users", home)) == nil })
	crd := ofKind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "")
	require.True(t, w.exists(crd, "", "samples.example.kyma-project.io"))
	was := crd.GetUID()
	here := func() {
		t.Helper()
		require.True(t, w.exists(crd, "", "samples.example.kyma-project.io"))
		require.Equal(t, was, crd.GetUID())
		require.Nil(t, crd.GetDeletionTimestamp())
		require.True(t, w.exists(sample("users", home), home, "users"))
	}

	t.Log("a CRD with an invalid schema is not recreated")
	w.wants("guarded", strings.Replace(definition, "{type: object, ", "{type: nonsense, ", 1)+config, version("2.0.0"))
	w.state("guarded", v1beta2.StateError, "nothing of version 2.0.0 was applied: ")
	require.Equal(t, v1beta2.ReasonApplyFailed, w.reason("guarded", v1beta2.ConditionInstallation))
	here()

	t.Log("a CRD with an immutable field and another error is not recreated")
	w.wants(
		"guarded",
		strings.NewReplacer("{type: object, ", "{type: nonsense, ", "scope: Namespaced", "scope: Cluster").
			Replace(definition)+
			config,
		version("2.0.1"),
	)
	w.state("guarded", v1beta2.StateError, "nothing of version 2.0.1 was applied: ")
	here()

	t.Log("an object whose update a policy denies is not recreated")
	guarded := &corev1.ConfigMap{}
	require.True(t, w.exists(guarded, home, "guarded"))
	uid := guarded.UID
	w.denies(admissionv1.Update, "object.metadata.name != 'guarded'", "guarded")
	w.wants("guarded", definition+strings.Replace(config, `"1"`, `"2"`, 1), version("3.0.0"),
		func(m *v1beta2.Manifest) {
			m.Annotations[v1beta2.AnnotationRecreate] = v1beta2.True
		})
	w.state("guarded", v1beta2.StateError, "nothing of version 3.0.0 was applied: ")
	require.Equal(t, v1beta2.ReasonApplyFailed, w.reason("guarded", v1beta2.ConditionInstallation))
	require.True(t, w.exists(guarded, home, "guarded"))
	require.Equal(t, uid, guarded.UID)
	require.Equal(t, "1", guarded.Data["version"])
}

func TestProtectedObjectPreventsRecreationOfAllObjects(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	const immutable = `---
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, namespace: kyma-system, annotations: {kyma-pull.dev/recreate: "true"}}
immutable: true
data: {version: "1"}
`
	content := strings.ReplaceAll(immutable, "NAME", "stays-a") + strings.ReplaceAll(immutable, "NAME", "stays-b")
	next := strings.ReplaceAll(content, `"1"`, `"2"`)
	w.wants("stays", content, version("1.0.0"))
	w.eventually("version 1.0.0 is applied", func() bool {
		return record.RunningVersion(w.manifest("stays")) == "1.0.0" && planning.Installed(w.manifest("stays"))
	})
	object := func(name string) *corev1.ConfigMap {
		t.Helper()
		found := &corev1.ConfigMap{}
		require.True(t, w.exists(found, home, name))
		return found
	}
	a, b := object("stays-a"), object("stays-b")
	unchanged := func() {
		t.Helper()
		require.Equal(t, a.UID, object("stays-a").UID)
		require.Equal(t, b.UID, object("stays-b").UID)
		require.Equal(t, "1", object("stays-a").Data["version"])
	}

	t.Log("an object with the annotation helm.sh/resource-policy=keep prevents the upgrade")
	b.Annotations["helm.sh/resource-policy"] = "keep"
	require.NoError(t, w.client.Update(ctx, b))
	w.wants("stays", next, version("2.0.0"))
	w.state(
		"stays",
		v1beta2.StateError,
		"stays-b: data: Forbidden: field is immutable when `immutable` is set: is not recreated because of its "+
			"annotation helm.sh/resource-policy=keep",
	)
	unchanged()

	t.Log("an object that was already recreated for this version prevents the upgrade")
	w.halt()
	b = object("stays-b")
	delete(b.Annotations, "helm.sh/resource-policy")
	require.NoError(t, w.client.Update(ctx, b))
	w.wants("stays", next, version("2.0.1"))
	m := w.manifest("stays")
	w.records("stays", func(r *record.Record) {
		r.Recreated = &record.Recreated{Version: planning.WantedDigest(m), Objects: []types.UID{a.UID}}
	})
	w.start()
	w.state("stays", v1beta2.StateError, "is not recreated again")
	unchanged()

	t.Log("an object without the module's mark but with its label is recreated")
	w.halt()
	b = object("stays-b")
	delete(b.Annotations, v1beta2.AnnotationOwnedBy)
	require.NoError(t, w.client.Update(ctx, b))
	w.wants("stays", next, version("2.0.2"))
	w.start()
	w.eventually("version 2.0.2 is applied", func() bool {
		return record.RunningVersion(w.manifest("stays")) == "2.0.2" && planning.Installed(w.manifest("stays"))
	})
	require.NotEqual(t, a.UID, object("stays-a").UID)
	require.Equal(t, "2", object("stays-b").Data["version"])
}
