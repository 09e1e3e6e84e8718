package objects

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestManifestLosesMetadataThatTheBundleDrops(t *testing.T) {
	w := newWorld(t)
	first, second := module("keda", "1.0.0"), module("keda", "1.0.0")
	first.Component = "makers.example/keda"
	first.Labels, first.Annotations = maps.Clone(first.Labels), map[string]string{}
	for _, label := range labelsFromBundle {
		first.Labels[label] = v1beta2.True
	}
	for _, annotation := range fromBundle {
		first.Annotations[annotation] = v1beta2.True
	}
	b := bundleOf(first)
	b.State.Settings.Mirrors = map[string]string{"docker.io": "mirror.example"}
	w.sync(b)
	manifest := &v1beta2.Manifest{}
	require.True(t, w.get(manifest, "keda"))
	require.Subset(t, manifest.Labels, first.Labels)
	require.Subset(t, manifest.Annotations, first.Annotations)
	require.Contains(t, manifest.Annotations, v1beta2.AnnotationImages)
	before := manifest.DeepCopy()
	mine := map[string]string{"mine": "too"}
	manifest.Labels, manifest.Annotations = mergeEntries(manifest.Labels, mine), mergeEntries(manifest.Annotations, mine)
	require.NoError(t, cluster.Patch(t.Context(), manifest, client.MergeFrom(before), client.FieldOwner("kubectl")))

	w.sync(bundleOf(second))
	require.True(t, w.get(manifest, "keda"))
	require.Equal(t, mergeEntries(second.Labels, mine), manifest.Labels)
	require.Equal(t, mine, manifest.Annotations)
}

func TestModuleRequestedDuringDeletionIsReinstalled(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.sync(bundleOf(module("keda", "1.0.0")))
	manifest := &v1beta2.Manifest{}
	require.True(t, w.get(manifest, "keda"))
	manifest.Finalizers = []string{v1beta2.FinalizerManifest}
	require.NoError(t, cluster.Update(ctx, manifest))
	removal := bundleOf()
	removal.Statement.Predicate.Removals = []string{"keda"}
	w.sync(removal)
	w.sync(bundleOf(module("keda", "0.9.0")))
	require.False(t, w.get(manifest, "keda"), "the Manifest must be in deletion")
	require.Equal(t, "1.0.0", manifest.Spec.Version, "the module must not be downgraded before its removal")
	again := module("keda", "2.0.0")
	again.Spec.CustomResourcePolicy = v1beta2.PolicyIgnore
	w.sync(bundleOf(again))
	require.False(t, w.get(manifest, "keda"), "the Manifest must be in deletion")
	require.True(t, w.Records.HasRemoval(manifest), "the removal must continue")
	require.Equal(t, "2.0.0", manifest.Spec.Version)
	require.Equal(t, v1beta2.PolicyCreateAndDelete, manifest.Spec.CustomResourcePolicy,
		"the default CR must still be deleted")
	manifest.Finalizers = nil
	require.NoError(t, cluster.Update(ctx, manifest))
	w.sync(bundleOf(again))
	require.True(t, w.get(manifest, "keda"), "the module must be installed again")
	require.False(t, w.Records.HasRemoval(manifest))
	require.Equal(t, v1beta2.PolicyIgnore, manifest.Spec.CustomResourcePolicy)

	manifest.Finalizers = []string{v1beta2.FinalizerManifest}
	require.NoError(t, cluster.Update(ctx, manifest))
	require.NoError(t, cluster.Delete(ctx, manifest))
	w.sync(bundleOf(module("keda", "3.0.0")))
	require.False(t, w.get(manifest, "keda"))
	require.Equal(t, "2.0.0", manifest.Spec.Version,
		"a Manifest that no bundle removed must not be updated during its deletion")
	manifest.Finalizers = nil
	require.NoError(t, cluster.Update(ctx, manifest))
}
