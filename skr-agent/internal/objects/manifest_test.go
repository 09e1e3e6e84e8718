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
