package objects

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

func (w *world) leave(o bundle.ObjectRef, change func(*unstructured.Unstructured)) {
	w.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(o.GVK())
	object.SetNamespace(o.Namespace)
	object.SetName(o.Name)
	object.SetLabels(map[string]string{v1beta2.LabelManagedBy: v1beta2.ManagedByKyma})
	if o.Kind == "Deployment" {
		object.Object["spec"] = map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "skr-webhook"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "skr-webhook"}},
				"spec": map[string]any{
					"containers": []any{map[string]any{"name": "server", "image": "example.org/watcher"}},
				},
			},
		}
	}
	if o.Kind == "Service" {
		object.Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(443)}}}
	}
	change(object)
	require.NoError(w, cluster.Create(w.Context(), object, client.FieldOwner("lifecycle-manager")))
	w.Cleanup(func() {
		object.SetFinalizers(nil)
		_ = cluster.Delete(w.Context(), object)
	})
}

func taken(phase bundle.TakeoverPhase, digest string, modules ...bundle.Manifest) *bundle.Bundle {
	b := bundleOf(modules...)
	b.State.Takeover = phase
	b.Digest = bundle.NewBlob("", []byte(digest)).Descriptor.Digest
	return b
}

func TestCleanPhaseRemovesOnlyMarkedLeftovers(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.Uncached = cluster
	as := func(*unstructured.Unstructured) {}
	theirs := func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{v1beta2.AnnotationOwnedBy: "kyma-system/watcher"})
	}
	deployment, service, account := takeover.Leftovers[1], takeover.Leftovers[2],
		takeover.Leftovers[len(takeover.Leftovers)-1]
	secret := takeover.Leftovers[4]
	another := bundle.ObjectRef{Version: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "skr-webhook-mine"}
	w.leave(deployment, as)
	w.leave(service, as)
	w.leave(secret, theirs)
	w.leave(account, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.org/hold"}) })
	w.leave(another, as)
	there := func(o bundle.ObjectRef) bool {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(o.GVK())
		err := cluster.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, m)
		require.NoError(t, client.IgnoreNotFound(err))
		return err == nil && m.DeletionTimestamp.IsZero()
	}

	t.Log("phase adopt does not remove leftovers")
	w.sync(taken(bundle.TakeoverAdopt, "1"))
	kyma := &v1beta2.Kyma{}
	require.True(t, w.get(kyma, v1beta2.RuntimeKymaName))
	kyma.Annotations = map[string]string{v1beta2.AnnotationOwnedByDeprecated: "kcp-system/kyma-1", "a-user": "says"}
	require.NoError(t, cluster.Update(ctx, kyma))
	require.True(t, there(deployment))

	t.Log("phase clean removes leftovers, and keeps objects with only the name or only the mark")
	now := time.Now()
	b := taken(bundle.TakeoverClean, "2")
	out := w.Sync(ctx, b, nil, maintenance.Gate{}, now)
	require.EqualError(t, out.Err(),
		"ServiceAccount kyma-system/skr-webhook-sa of lifecycle-manager is being deleted and waits for its "+
			"finalizers: [example.org/hold]")
	require.Empty(t, out.PhaseDone)
	require.ElementsMatch(t, []bundle.ObjectRef{deployment, service, account}, out.Removed)
	require.False(t, there(deployment) || there(service) || there(account))
	require.True(t, there(secret) && there(another))
	require.True(t, w.get(kyma, v1beta2.RuntimeKymaName))
	require.Equal(t, map[string]string{"a-user": "says"}, kyma.Annotations)

	t.Log("the phase is complete when all leftovers are deleted")
	held := &corev1.ServiceAccount{}
	require.NoError(t, cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: account.Name}, held))
	held.Finalizers = nil
	require.NoError(t, cluster.Update(ctx, held))
	out = w.Sync(ctx, b, nil, maintenance.Gate{}, now.Add(maxRetryDelay))
	require.NoError(t, out.Err())
	require.Equal(t, b.Digest.String(), out.PhaseDone)
	require.Len(t, out.Removed, 3)
}

func TestReleasePhaseReturnsFieldsToLifecycleManager(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.Uncached, w.Client = cluster, client.WithFieldOwner(cluster, defaultOwner)
	b := taken(bundle.TakeoverAdopt, "1", module("keda", "1.7.0"))
	b.Modules.ModuleTemplates = []bundle.CatalogEntry{
		entry("keda-1.7.0", `{"moduleName": "keda", "version": "1.7.0", "descriptor": {}}`),
	}
	template := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta2.GroupVersion.String(), "kind": "ModuleTemplate", "metadata": map[string]any{
			"name": "keda-1.7.0", "namespace": namespace,
		},
		"spec": map[string]any{
			"moduleName": "keda", "version": "1.7.0", "descriptor": map[string]any{}, "mandatory": true,
		},
	}}
	require.NoError(t,
		cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(template), client.FieldOwner("catalog-sync")))
	w.sync(b)
	require.NoError(t, cluster.Get(ctx, client.ObjectKeyFromObject(template), template))
	require.NotContains(t, template.Object["spec"], "mandatory",
		"a field of lifecycle-manager that is not in the catalog must be removed")
	held := &v1beta2.Manifest{}
	require.True(t, w.get(held, "keda"))
	controllerutil.AddFinalizer(held, v1beta2.FinalizerManifest)
	require.NoError(t, w.Records.Set(held, record.Record{Restoring: true}))
	require.NoError(t, cluster.Update(ctx, held))

	t.Log("Manifests are deleted as unmanaged, after the installer returned their objects")
	b.State.Takeover, b.Digest = bundle.TakeoverRelease, bundle.NewBlob("", []byte("2")).Descriptor.Digest
	out := w.Sync(ctx, b, nil, maintenance.Gate{}, time.Now())
	require.NoError(t, out.Err())
	require.Empty(t, out.PhaseDone)
	require.NoError(t, cluster.Get(ctx, client.ObjectKeyFromObject(held), held))
	require.False(t, held.DeletionTimestamp.IsZero())
	require.Equal(t, "true", held.Annotations[v1beta2.AnnotationUnmanaged])
	require.Equal(t, record.Record{Released: true, Removal: held.UID, Unmanaged: true}, w.Records.Read(held))
	held.Finalizers = nil
	require.NoError(t, cluster.Update(ctx, held))

	t.Log("the agent owns no fields afterwards, and creates no objects")
	require.NoError(t, EnsureFoundation(ctx, cluster))
	out = w.Sync(ctx, b, nil, maintenance.Gate{}, time.Now())
	require.NoError(t, out.Err())
	require.Equal(t, b.Digest.String(), out.PhaseDone)
	require.False(t, w.get(held, "keda"))
	managersOf := func(kind, name, in string) (names []string) {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(v1beta2.GroupVersion.WithKind(kind))
		if kind == "CustomResourceDefinition" {
			o.SetAPIVersion("apiextensions.k8s.io/v1")
		}
		require.NoError(t, cluster.Get(ctx, client.ObjectKey{Namespace: in, Name: name}, o))
		for _, e := range o.GetManagedFields() {
			if e.Subresource == "" {
				names = append(names, e.Manager)
			}
		}
		return slices.Compact(names)
	}
	require.NotContains(t, managersOf("CustomResourceDefinition", "kymas.operator.kyma-project.io", ""), fieldOwner)
	require.Contains(t, managersOf("CustomResourceDefinition", "kymas.operator.kyma-project.io", ""),
		"lifecycle-manager")
	require.Equal(t, []string{"catalog-sync"}, managersOf("ModuleTemplate", "keda-1.7.0", namespace))

	t.Log("lifecycle-manager's fields in CRDs are taken over")
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "kymas.operator.kyma-project.io", "labels": map[string]any{"old": "field"}},
	}}
	live, err := readLive(ctx, cluster, crd)
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(live.Object, "field", "metadata", "labels", "old"))
	require.NoError(t, cluster.Update(ctx, live, client.FieldOwner("lifecycle-manager")))
	require.NoError(t, EnsureFoundation(ctx, cluster))
	live, err = readLive(ctx, cluster, crd)
	require.NoError(t, err)
	require.NotContains(t, live.GetLabels(), "old")
	require.NotContains(t, managersOf("CustomResourceDefinition", "kymas.operator.kyma-project.io", ""),
		"lifecycle-manager")
}
