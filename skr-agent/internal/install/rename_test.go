package install

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// annotate sets an annotation of a Manifest.
func (w *world) annotate(name, annotation, value string) {
	w.Helper()
	m := w.manifest(name)
	before := m.DeepCopy()
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, annotation, value)
	require.NoError(w, w.client.Patch(w.Context(), m, client.MergeFrom(before)))
}

func TestARenamedModuleTakesOverObjectsAndKeepsUsers(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.wants("sample", sampleCRD+sampleRest+sampleExtra, withDefaultCR)
	w.runs(home, "sample-manager")
	w.state("sample", v1beta2.StateReady, "")
	users := sample("users", "default")
	require.NoError(t, w.client.Create(ctx, users))
	defaultCR := sample("default", home)
	require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(defaultCR), defaultCR))
	manager := &appsv1.Deployment{}
	require.True(t, w.exists(manager, home, "sample-manager"))
	was := map[string]types.UID{"users": users.GetUID(), "default": defaultCR.GetUID(), "manager": manager.UID}

	renamed := func(m *v1beta2.Manifest) {
		withDefaultCR(m)
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.AnnotationRenamedFrom, "sample")
	}
	t.Log("without a word of the one before, both want the same objects")
	w.wants("twin", sampleCRD+sampleRest, renamed)
	w.state("twin", v1beta2.StateError, "belongs to module sample already: remove it from one of both")
	w.remove("sample")
	w.annotate("twin", "example.org/look", "again")
	w.state("twin", v1beta2.StateError, "belongs to module sample, which is being removed: wait for that, or, if module twin is the same under a new name")
	w.remove("twin") // and takes nothing along that it was never given
	w.eventually("it is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "twin") })
	w.state("sample", v1beta2.StateWarning, "Sample default/users")

	t.Log("what was being removed is handed over")
	w.annotate("sample", v1beta2.AnnotationRenamedTo, "example")
	w.wants("example", sampleCRD+sampleRest, renamed)
	w.eventually("the Manifest before is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "sample") })
	w.eventually("the operator has the new mark", func() bool {
		return w.exists(manager, home, "sample-manager") && manager.Annotations[v1beta2.AnnotationOwnedBy] == home+"/example"
	})
	w.runs(home, "sample-manager") // Kubernetes counts annotations of Deployments among their generations
	w.state("example", v1beta2.StateReady, "")
	w.eventually("what is not part of it any more is pruned", func() bool { return !w.exists(&corev1.ConfigMap{}, home, "sample-extra") })
	require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(users), users))
	require.NoError(t, w.client.Get(ctx, client.ObjectKeyFromObject(defaultCR), defaultCR))
	require.True(t, w.exists(manager, home, "sample-manager"))
	require.Equal(t, was, map[string]types.UID{"users": users.GetUID(), "default": defaultCR.GetUID(), "manager": manager.UID})
	require.Empty(t, users.GetAnnotations()[v1beta2.AnnotationOwnedBy])
	for _, o := range []client.Object{manager, defaultCR} {
		require.Equal(t, home+"/example", o.GetAnnotations()[v1beta2.AnnotationOwnedBy], o.GetName())
		require.Equal(t, "example", o.GetLabels()[v1beta2.LabelModuleName], o.GetName())
	}

	t.Log("and goes with the module by its new name")
	w.remove("example")
	w.state("example", v1beta2.StateWarning, "Sample default/users")
	require.NoError(t, w.client.Delete(ctx, users))
	w.eventually("all is gone", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "example") })
	require.False(t, w.exists(&appsv1.Deployment{}, home, "sample-manager"))
}

func TestWhenAManifestHasTakenOverAnother(t *testing.T) {
	a, b := resource("ConfigMap", "", "a"), resource("ConfigMap", "", "b")
	for name, c := range map[string]struct {
		former, successor []v1beta2.Resource
		change            func(*v1beta2.Manifest)
		want              bool
	}{
		"all of it":                    {[]v1beta2.Resource{a}, []v1beta2.Resource{a, b}, nil, true},
		"a part":                       {[]v1beta2.Resource{a, b}, []v1beta2.Resource{a}, nil, false},
		"nothing, where there is none": {nil, nil, nil, true},
		"it takes over another one":    {nil, nil, func(m *v1beta2.Manifest) { m.Annotations[v1beta2.AnnotationRenamedFrom] = "other" }, false},
		"it is on its way out itself":  {nil, nil, func(m *v1beta2.Manifest) { m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
	} {
		former, successor := &v1beta2.Manifest{}, &v1beta2.Manifest{}
		former.Name, former.Status.Synced = "former", c.former
		successor.Name, successor.Status.Synced = "successor", c.successor
		successor.Annotations = map[string]string{v1beta2.AnnotationRenamedFrom: "former"}
		if c.change != nil {
			c.change(successor)
		}
		require.Equal(t, c.want, tookOver(former, successor), name)
	}
}
