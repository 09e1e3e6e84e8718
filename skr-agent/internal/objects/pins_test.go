package objects

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// kymaWith returns a Kyma that requests modules, each with a name, a channel and a version.
func kymaWith(modules ...[3]string) *v1beta2.Kyma {
	kyma := &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1beta2.RuntimeKymaName},
		Spec:       v1beta2.KymaSpec{Channel: "regular"},
	}
	for _, m := range modules {
		kyma.Spec.Modules = append(kyma.Spec.Modules, v1beta2.Module{
			Name: m[0], Channel: m[1], Version: m[2], Managed: true,
			CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	}
	return kyma
}

func TestRestoredKymaKeepsPinnedVersions(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.Restorer = &Restorer{Client: cluster, Uncached: cluster, Signer: w.Records.Signer}
	forget := func() {
		_ = cluster.Delete(context.Background(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: MemorySecret},
		})
	}
	forget() // deletes the Secret of another test
	t.Cleanup(forget)
	b := bundleOf()
	b.State.Kyma.Spec = kymaWith([3]string{"keda", "", "1.7.0"}, [3]string{"nats", "fast", ""}).Spec
	w.sync(b)
	kyma := &v1beta2.Kyma{}
	is := func(pins, channel string) {
		t.Helper()
		require.True(t, w.get(kyma, v1beta2.RuntimeKymaName))
		require.Equal(t, pins, kyma.Annotations[v1beta2.AnnotationPinnedVersions])
		require.Empty(t, kyma.Spec.Modules[0].Version)
		require.Equal(t, channel, kyma.Spec.Modules[0].Channel)
	}
	is("keda=1.7.0", "")

	before := kyma.DeepCopy()
	kyma.Annotations[v1beta2.AnnotationPinnedVersions], kyma.Spec.Modules[0].Channel = "keda=1.8.0, nats=1.0.0", "fast"
	require.NoError(t, cluster.Patch(ctx, kyma, client.MergeFrom(before)))
	_, err := w.Restorer.Restore(ctx, b)
	require.NoError(t, err)
	require.NoError(t, cluster.Delete(ctx, kyma))
	restored, err := w.Restorer.Restore(ctx, b)
	require.NoError(t, err)
	require.Equal(t, []string{"Kyma default"}, restored)
	is("keda=1.8.0, nats=1.0.0", "fast")
}
