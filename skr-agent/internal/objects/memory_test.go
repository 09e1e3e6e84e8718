package objects

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// installed is a Manifest of a module with one object.
func installed(name string, uid types.UID, change ...func(*v1beta2.Manifest)) v1beta2.Manifest {
	m := v1beta2.Manifest{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Finalizers: []string{v1beta2.FinalizerManifest}},
		Spec:       v1beta2.ManifestSpec{Version: "1.0.0"},
		Status:     v1beta2.ManifestStatus{Synced: []v1beta2.Resource{{Name: name}}},
	}
	for _, c := range change {
		c(&m)
	}
	return m
}

func deleted(m *v1beta2.Manifest) { m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func marked(annotation string) func(*v1beta2.Manifest) {
	return func(m *v1beta2.Manifest) { m.Annotations = map[string]string{annotation: v1beta2.True} }
}

func TestDeletedObjectsAreRestored(t *testing.T) {
	before := Memory{}.Observe(&v1beta2.Kyma{Spec: v1beta2.KymaSpec{Channel: "fast"}},
		[]v1beta2.Manifest{installed("keda", "1")}, nil)
	kyma := &v1beta2.Kyma{Spec: v1beta2.KymaSpec{Channel: "regular"}}
	for name, c := range map[string]struct {
		memory   Memory
		kyma     *v1beta2.Kyma
		live     []v1beta2.Manifest
		removals []string
		again    bool     // the Kyma is made again
		release  []string // Manifests that are let go
		restore  []string // Manifests that are made again
		keeps    int      // Manifests in memory
		bundle   string   // the module that the bundle in force has, "-" for no bundle; empty is keda
	}{
		"all is there": {
			memory: before, kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1")}, keeps: 1,
		},
		"everything is gone": {
			memory: before, again: true, restore: []string{"keda"}, keeps: 1,
		},
		"nothing was there": {memory: Memory{}},
		"a Manifest is being deleted": {
			memory: before, kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1", deleted)},
			release: []string{"keda"}, keeps: 1,
		},
		"one that was not remembered": {
			kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1", deleted)}, release: []string{"keda"}, keeps: 1,
		},
		"one with the mark of its removal": {
			memory: before, kyma: kyma,
			live: []v1beta2.Manifest{installed("keda", "1", deleted, marked(v1beta2.AnnotationRemoval))}, keeps: 1,
		},
		"one that is left unmanaged": {
			memory: before, kyma: kyma,
			live: []v1beta2.Manifest{installed("keda", "1", deleted, marked(v1beta2.AnnotationUnmanaged))}, keeps: 1,
		},
		"one that the bundle removes, without a mark": {
			memory: before, kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1", deleted)},
			removals: []string{"keda"}, keeps: 1,
		},
		"one that was removed and is gone": {memory: before.leaving("keda", "1"), kyma: kyma},
		"one that was removed and is still seen": {
			memory: before.leaving("keda", "1"), kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1")}, keeps: 1,
		},
		"one that came after another was removed": {
			memory: before.leaving("keda", "1"), kyma: kyma, live: []v1beta2.Manifest{installed("keda", "2", deleted)},
			release: []string{"keda"}, keeps: 1,
		},
		"one whose return was interrupted": {
			memory: before, kyma: kyma,
			live:    []v1beta2.Manifest{installed("keda", "2", marked(v1beta2.AnnotationRestoring))},
			restore: []string{"keda"}, keeps: 1,
		},
		"one that the bundle in force does not name": {memory: before, kyma: kyma, bundle: "other"},
		"one of a runtime without a bundle": {
			memory: before, kyma: kyma, restore: []string{"keda"}, keeps: 1, bundle: "-",
		},
		"one whose deletion no bundle explains": {
			memory: before, kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1", deleted)}, keeps: 1,
			bundle: "-",
		},
		"one that is to stay after all": {
			memory: before.leaving("keda", "1").leaving("keda", ""), kyma: kyma, restore: []string{"keda"}, keeps: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundleOf(module(cmp.Or(c.bundle, "keda"), "1.0.0"))
			b.Statement.Predicate.Removals = c.removals
			if c.bundle == "-" {
				b = nil
			}
			memory := c.memory.Observe(c.kyma, c.live, b)
			todo := memory.missing(c.kyma, c.live, b)
			var release, restore []string
			for _, m := range todo.release {
				release = append(release, m.Name)
			}
			for _, m := range todo.restore {
				restore = append(restore, m.Name)
				require.Len(t, m.Synced, 1, "the list of its objects")
			}
			require.Equal(t, c.again, todo.kyma)
			require.Equal(t, c.release, release)
			require.Equal(t, c.restore, restore)
			require.Len(t, memory.Manifests, c.keeps)
			if c.again {
				require.Equal(t, "fast", memory.Kyma.Channel)
			}
		})
	}
}

func TestManifestWithoutItsMarkIsNotLeaving(t *testing.T) {
	kyma, b := &v1beta2.Kyma{}, bundleOf(module("keda", "1.0.0"))
	known := Memory{}.Observe(kyma, []v1beta2.Manifest{installed("keda", "1")}, b)
	seen := func(m Memory, manifests ...v1beta2.Manifest) Memory {
		for _, manifest := range manifests {
			m = m.Observe(kyma, []v1beta2.Manifest{manifest}, b)
		}
		return m
	}
	unmarked, withMark := installed("keda", "1"), installed("keda", "1", marked(v1beta2.AnnotationRemoval))
	gone := installed("keda", "1", deleted)
	for name, memory := range map[string]Memory{
		"the mark was seen and then taken off": seen(known, withMark, unmarked),
		"the mark is still seen after it was taken off": seen(seen(known.leaving("keda", "1"), withMark).
			leaving("keda", ""), withMark, unmarked),
		"the agent ended before it could mark it":             seen(known.leaving("keda", "1"), unmarked),
		"the agent ended before it could mark an unknown one": seen(Memory{}.leaving("keda", "1"), unmarked),
	} {
		require.Len(t, seen(memory, gone).missing(kyma, []v1beta2.Manifest{gone}, b).release, 1,
			"%s: nobody lets it go", name)
	}
	back := seen(known, withMark, unmarked).Observe(kyma, nil, b)
	require.Len(t, back.missing(kyma, nil, b).restore, 1,
		"the mark was taken off: it comes back with the list of its objects")

	stale := seen(known.leaving("keda", "1"), unmarked)
	require.Empty(t, stale.Observe(kyma, nil, b).Manifests, "what was seen was older than the mark")
	again := seen(known.leaving("keda", "1"), withMark).leaving("keda", "").leaving("keda", "1")
	require.Empty(t, seen(again, unmarked).Observe(kyma, nil, b).Manifests, "it was marked, cleared and marked again")
}

func TestRemovalDoesNotWaitForARestoration(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background() // the cleanup needs it
	w.Keeper = &Keeper{Client: cluster, Uncached: cluster, Signer: signer(t)}
	t.Cleanup(func() {
		_ = cluster.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: MemorySecret}})
	})
	b := bundleOf(module("keda", "1.0.0"))
	w.sync(b)
	keda, list := &v1beta2.Manifest{}, []v1beta2.Resource{{Name: "operator", Namespace: "keda"}}
	change := func(change func()) {
		require.NoError(t, cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "keda"}, keda))
		before := keda.DeepCopy()
		change()
		require.NoError(t, cluster.Patch(ctx, keda.DeepCopy(), client.MergeFrom(before)))
		require.NoError(t,
			client.IgnoreNotFound(cluster.Status().Patch(ctx, keda.DeepCopy(), client.MergeFrom(before))))
	}
	change(func() {
		keda.Finalizers, keda.Status.Synced, keda.Status.State = []string{v1beta2.FinalizerManifest}, list,
			v1beta2.StateReady
	})
	t.Cleanup(func() { change(func() { keda.Finalizers = nil }) })
	_, err := w.Keeper.Restore(ctx, b)
	require.NoError(t, err)
	for _, deleting := range []bool{false, true} {
		b.State.Manifests, b.Statement.Predicate.Removals, b.Statement.Predicate.Deleting = nil, []string{"keda"},
			deleting
		w.sync(b)
		change(func() { keda.Annotations[v1beta2.AnnotationRestoring], keda.Status.Synced = v1beta2.True, nil })
		_, err = w.Keeper.Restore(ctx, b)
		require.NoError(t, err)
		require.False(t, w.get(keda, "keda"), "it is made again")
		require.NotContains(t, keda.Annotations, v1beta2.AnnotationRestoring, "the installer ignores it for ever")
		require.True(t, keda.IsRemoved())
		require.Equal(t, list, keda.Status.Synced, "by the list it knows what to delete")
	}
}

// full is an API server that creates no more Secrets, as if a quota were exceeded.
type full struct{ client.Client }

func (f full) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if secret, ok := o.(*corev1.Secret); ok {
		return apierrors.NewForbidden(corev1.Resource("secrets"), secret.Name, errors.New("exceeded quota"))
	}
	return f.Client.Create(ctx, o, opts...)
}

func TestUnsavedMemoryBlocksNothing(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.Keeper = &Keeper{Client: cluster, Uncached: full{cluster}, Signer: signer(t)}
	b := bundleOf(module("keda", "1.0.0"), module("nats", "1.0.0"))
	w.sync(b)
	_, err := w.Keeper.Restore(ctx, b)
	require.ErrorContains(t, err, "exceeded quota")
	require.NoError(t, cluster.DeleteAllOf(ctx, &v1beta2.Manifest{}, client.InNamespace(namespace)))
	restored, err := w.Keeper.Restore(ctx, b)
	require.ErrorContains(t, err, "exceeded quota")
	require.Equal(t, []string{"Manifest keda", "Manifest nats"}, restored)

	b.State.Manifests, b.Statement.Predicate.Removals = b.State.Manifests[1:], []string{"keda"}
	w.sync(b)
	require.False(t, w.get(&v1beta2.Manifest{}, "keda"))
	restored, err = w.Keeper.Restore(ctx, b)
	require.ErrorContains(t, err, "exceeded quota")
	require.Empty(t, restored)

	b.Statement.Predicate.Deleting = true
	w.sync(b)
	require.False(t, w.get(&v1beta2.Manifest{}, "nats"))

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: MemorySecret}}
	require.NoError(t, cluster.Create(ctx, secret))
	t.Cleanup(func() { _ = cluster.Delete(context.Background(), secret) })
	_, err = w.Keeper.Restore(ctx, b)
	require.NoError(t, err, "a Secret that is there can be written")
}

func signer(t *testing.T) trust.Signer {
	t.Helper()
	key, err := trust.GenerateKey()
	require.NoError(t, err)
	signer, err := trust.LoadSigner(key)
	require.NoError(t, err)
	return signer
}

func TestMemoryOfAnotherKeyIsIgnored(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	t.Cleanup(func() {
		_ = cluster.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: MemorySecret}})
	})
	own := signer(t)
	keeper := &Keeper{Client: cluster, Uncached: cluster, Signer: own}
	w.Keeper = keeper
	b := bundleOf(module("keda", "1.0.0"))
	w.sync(b)
	_, err := keeper.Restore(ctx, b)
	require.NoError(t, err)
	forget := func() {
		require.NoError(t, cluster.DeleteAllOf(ctx, &v1beta2.Manifest{}, client.InNamespace(namespace)))
		require.NoError(t, cluster.DeleteAllOf(ctx, &v1beta2.Kyma{}, client.InNamespace(namespace)))
	}
	forget()
	restored, err := (&Keeper{Client: cluster, Uncached: cluster, Signer: signer(t)}).Restore(ctx, b)
	require.ErrorContains(t, err, "it is not signed by this agent's key")
	require.Empty(t, restored)

	restored, err = (&Keeper{Client: cluster, Uncached: cluster, Signer: own}).Restore(ctx, b)
	require.NoError(t, err)
	require.Equal(t, []string{"Kyma default", "Manifest keda"}, restored)
	require.True(t, w.get(&v1beta2.Manifest{}, "keda"))

	b.State.Manifests, b.Statement.Predicate.Removals = nil, []string{"keda"}
	w.sync(b)
	forget()
	restored, err = keeper.Restore(ctx, b)
	require.NoError(t, err)
	require.Equal(t, []string{"Kyma default"}, restored, "a module that a bundle removed came back")
}

func TestMemoryKeepsResultsOfChecks(t *testing.T) {
	known := Memory{
		Checks: []checks.Record{{Module: "keda", Version: "1.0.0", States: []checks.State{{Name: "a", Before: "0.5"}}}},
	}
	require.Equal(t, known.Checks, known.Observe(nil, nil, nil).leaving("keda", "1").Checks)
}
