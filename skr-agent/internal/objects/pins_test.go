package objects

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// kymaWith is a Kyma as people ask for it: module, channel and version of each.
func kymaWith(modules ...[3]string) *v1beta2.Kyma {
	kyma := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1beta2.RuntimeKymaName}, Spec: v1beta2.KymaSpec{Channel: "regular"}}
	for _, m := range modules {
		kyma.Spec.Modules = append(kyma.Spec.Modules, v1beta2.Module{Name: m[0], Channel: m[1], Version: m[2], Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete})
	}
	return kyma
}

// refusing is an API server that refuses all patches.
type refusing struct{ client.Client }

func (refusing) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errors.New("denied by a tenant")
}

func TestPinsOfBeforeBecomeTheAnnotationOnce(t *testing.T) {
	old := Memory{Kyma: &kymaWith([3]string{"keda", "", "1.7.0"}, [3]string{"nats", "fast", "1.0.0"}, [3]string{"istio", "", "1.2.0"}).Spec}
	annotated := kymaWith([3]string{"keda", "", ""})
	annotated.Annotations = map[string]string{v1beta2.AnnotationPinnedVersions: ""}
	for name, c := range map[string]struct {
		memory Memory
		kyma   *v1beta2.Kyma
		want   string
	}{
		"Pins that the definition dropped meanwhile": {old, kymaWith([3]string{"keda", "", ""}, [3]string{"nats", "fast", ""}, [3]string{"istio", "", ""}), "istio=1.2.0,keda=1.7.0"},
		"A module that has a channel by now":         {old, kymaWith([3]string{"keda", "fast", "1.7.0"}), ""},
		"A Kyma that has the annotation":             {old, annotated, ""},
		"A memory of an agent with the annotation":   {old.Observe(kymaWith([3]string{"keda", "", "1.7.0"}), nil, nil), kymaWith([3]string{"keda", "", "1.7.0"}), ""},
		"No memory": {Memory{}, kymaWith([3]string{"keda", "", "1.7.0"}), ""},
		"No Kyma":   {old, nil, ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.memory.unwrittenPins(c.kyma)) })
	}
}

func TestAKymaComesBackWithItsPins(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.Keeper = &Keeper{Client: cluster, Uncached: cluster, Signer: signer(t)}
	forget := func() {
		_ = cluster.Delete(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: MemorySecret}})
	}
	forget() // that of another key
	t.Cleanup(forget)
	_, known, _ := w.Keeper.Asked(&v1beta2.Kyma{})
	require.False(t, known, "the memory was not looked at")
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
	_, err := w.Keeper.Restore(ctx, b)
	require.NoError(t, err)
	require.NoError(t, cluster.Delete(ctx, kyma))
	restored, err := w.Keeper.Restore(ctx, b)
	require.NoError(t, err)
	require.Equal(t, []string{"Kyma default"}, restored)
	is("keda=1.8.0, nats=1.0.0", "fast")

	// An agent of before remembered pins as versions.
	before = kyma.DeepCopy()
	delete(kyma.Annotations, v1beta2.AnnotationPinnedVersions)
	kyma.Spec.Modules[0].Channel = ""
	require.NoError(t, cluster.Patch(ctx, kyma, client.MergeFrom(before)))
	w.Keeper.memory.Kyma, w.Keeper.memory.Pins = b.State.Kyma.Spec.DeepCopy(), nil
	w.Keeper.Uncached = refusing{cluster}
	_, err = w.Keeper.Restore(ctx, b)
	require.ErrorContains(t, err, "which takes the place of spec.modules[].version: denied by a tenant")
	asked, known, err := w.Keeper.Asked(kyma)
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, "1.7.0", asked.Modules[0].Pin(), "what is asked for would be told without its pins")
	w.Keeper.Uncached = cluster
	_, err = w.Keeper.Restore(ctx, b)
	require.NoError(t, err)
	require.Empty(t, w.Keeper.unwritten)
	is("keda=1.7.0", "")
	require.NoError(t, cluster.Patch(ctx, kyma, client.RawPatch("application/json-patch+json",
		[]byte(`[{"op":"remove","path":"/metadata/annotations/kyma-pull.dev~1pinned-versions"},{"op":"add","path":"/spec/modules/0/version","value":"1.9.0"}]`))))
	_, err = w.Keeper.Restore(ctx, b)
	require.NoError(t, err)
	require.True(t, w.get(kyma, v1beta2.RuntimeKymaName))
	require.NotContains(t, kyma.Annotations, v1beta2.AnnotationPinnedVersions, "what is written as a version later is no pin")
}
