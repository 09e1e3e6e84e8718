package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// installed returns a Manifest of a module with one object.
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

func markedUnmanaged(m *v1beta2.Manifest) {
	m.Annotations = map[string]string{v1beta2.AnnotationUnmanaged: v1beta2.True}
}

func TestDeletedObjectsAreRestored(t *testing.T) {
	own, other := record.Store{Signer: signer(t)}, record.Store{Signer: signer(t)}
	recorded := func(by record.Store, r record.Record) func(*v1beta2.Manifest) {
		return func(m *v1beta2.Manifest) { require.NoError(t, by.Set(m, r)) }
	}
	before := agentMemory{}.observe(own, nil, &v1beta2.Kyma{Spec: v1beta2.KymaSpec{Channel: "fast"}},
		[]v1beta2.Manifest{installed("keda", "1")}, nil)
	kyma := &v1beta2.Kyma{Spec: v1beta2.KymaSpec{Channel: "regular"}}
	for name, c := range map[string]struct {
		memory   agentMemory
		kyma     *v1beta2.Kyma
		live     []v1beta2.Manifest
		removals []string
		again    bool     // the Kyma is created again
		release  []string // Manifests that must be released
		restore  []string // Manifests that must be recreated
		keeps    int      // number of Manifests in memory
		bundle   string   // module of the last accepted bundle; default keda, "-" for no bundle
	}{
		"no object is missing": {
			memory: before, kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1")}, keeps: 1,
		},
		"all objects are missing": {
			memory: before, again: true, restore: []string{"keda"}, keeps: 1,
		},
		"empty memory, and a runtime without objects": {memory: agentMemory{}},
		"Manifest is being deleted": {
			memory: before, kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1", deleted)},
			release: []string{"keda"}, keeps: 1,
		},
		"deleted Manifest that is not in memory": {
			kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1", deleted)}, release: []string{"keda"}, keeps: 1,
		},
		"deleted Manifest with a recorded removal": {
			memory: before, kyma: kyma,
			live: []v1beta2.Manifest{
				installed("keda", "1", deleted, recorded(own, record.Record{Removal: "1"})),
			}, keeps: 1,
		},
		"deleted Manifest with a removal that another key signed": {
			memory: before, kyma: kyma,
			live: []v1beta2.Manifest{
				installed("keda", "1", deleted, recorded(other, record.Record{Removal: "1"})),
			}, release: []string{"keda"}, keeps: 1,
		},
		"deleted Manifest with a previous Manifest's removal": {
			memory: before, kyma: kyma,
			live: []v1beta2.Manifest{
				installed("keda", "2", deleted, recorded(own, record.Record{Removal: "1"})),
			}, release: []string{"keda"}, keeps: 1,
		},
		"deleted Manifest of a module that becomes unmanaged": {
			memory: before, kyma: kyma,
			live: []v1beta2.Manifest{
				installed("keda", "1", deleted, recorded(own, record.Record{Removal: "1", Unmanaged: true})),
			}, keeps: 1,
		},
		"deleted Manifest that another client marked as unmanaged": {
			memory: before, kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1", deleted, markedUnmanaged)},
			release: []string{"keda"}, keeps: 1,
		},
		"deleted Manifest without a recorded removal whose module the bundle removes": {
			memory: before, kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1", deleted)},
			removals: []string{"keda"}, keeps: 1,
		},
		"Manifest to remove is already deleted": {memory: before.withRemoval("keda", "1"), kyma: kyma},
		"Manifest to remove still exists": {
			memory: before.withRemoval("keda", "1"), kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1")}, keeps: 1,
		},
		"new Manifest after a removal is being deleted": {
			memory: before.withRemoval("keda", "1"), kyma: kyma, live: []v1beta2.Manifest{installed("keda", "2", deleted)},
			release: []string{"keda"}, keeps: 1,
		},
		"interrupted restore": {
			memory: before, kyma: kyma,
			live:    []v1beta2.Manifest{installed("keda", "2", recorded(own, record.Record{Restoring: true}))},
			restore: []string{"keda"}, keeps: 1,
		},
		"missing Manifest that is not in the last bundle": {memory: before, kyma: kyma, bundle: "other"},
		"missing Manifest of a module that the bundle removes": {
			memory: before, kyma: kyma, bundle: "other", removals: []string{"keda"}, restore: []string{"keda"}, keeps: 1,
		},
		"missing Manifest of a module whose removal has begun": {
			memory: before.withRemoval("keda", "1"), kyma: kyma, bundle: "other", removals: []string{"keda"},
		},
		"missing Manifest without a bundle": {
			memory: before, kyma: kyma, restore: []string{"keda"}, keeps: 1, bundle: "-",
		},
		"deleted Manifest without a bundle": {
			memory: before, kyma: kyma, live: []v1beta2.Manifest{installed("keda", "1", deleted)}, keeps: 1,
			bundle: "-",
		},
		"missing Manifest whose removal was revoked": {
			memory: before.withRemoval("keda", "1").withRemoval("keda", ""), kyma: kyma, restore: []string{"keda"}, keeps: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundleOf(module(cmp.Or(c.bundle, "keda"), "1.0.0"))
			b.Statement.Predicate.Removals = c.removals
			if c.bundle == "-" {
				b = nil
			}
			memory := c.memory.observe(own, nil, c.kyma, c.live, b)
			todo := memory.planRecovery(c.kyma, c.live, b)
			var release, restore []string
			for _, m := range todo.release {
				release = append(release, m.Name)
			}
			for _, m := range todo.restore {
				restore = append(restore, m.Name)
				require.Len(t, m.Synced, 1, "restored Manifest must have its inventory")
			}
			require.Equal(t, c.again, todo.createKyma)
			require.Equal(t, c.release, release)
			require.Equal(t, c.restore, restore)
			require.Len(t, memory.Manifests, c.keeps)
			if c.again {
				require.Equal(t, "fast", memory.Kyma.Channel)
			}
		})
	}
}

func TestDeletedManifestWithoutRecordedRemovalIsRestored(t *testing.T) {
	own := record.Store{Signer: signer(t)}
	marked := func(m *v1beta2.Manifest) { require.NoError(t, own.Set(m, record.Record{Removal: m.UID})) }
	kyma, b := &v1beta2.Kyma{}, bundleOf(module("keda", "1.0.0"))
	known := agentMemory{}.observe(own, nil, kyma, []v1beta2.Manifest{installed("keda", "1")}, b)
	seen := func(m agentMemory, manifests ...v1beta2.Manifest) agentMemory {
		for _, manifest := range manifests {
			m = m.observe(own, nil, kyma, []v1beta2.Manifest{manifest}, b)
		}
		return m
	}
	unmarked, withMark := installed("keda", "1"), installed("keda", "1", marked)
	gone := installed("keda", "1", deleted)
	for name, memory := range map[string]agentMemory{
		"annotation was observed and then removed": seen(known, withMark, unmarked),
		"outdated copy still has the removed annotation": seen(seen(known.withRemoval("keda", "1"), withMark).
			withRemoval("keda", ""), withMark, unmarked),
		"agent stopped before it set the annotation":       seen(known.withRemoval("keda", "1"), unmarked),
		"agent stopped before it annotated a new Manifest": seen(agentMemory{}.withRemoval("keda", "1"), unmarked),
	} {
		require.Len(t, seen(memory, gone).planRecovery(kyma, []v1beta2.Manifest{gone}, b).release, 1,
			"%s: the Manifest must be released", name)
	}
	back := seen(known, withMark, unmarked).observe(own, nil, kyma, nil, b)
	require.Len(t, back.planRecovery(kyma, nil, b).restore, 1,
		"a Manifest without the annotation must be restored")

	stale := seen(known.withRemoval("keda", "1"), unmarked)
	require.Empty(t, stale.observe(own, nil, kyma, nil, b).Manifests, "the observed copy is older than the annotation")
	again := seen(known.withRemoval("keda", "1"), withMark).withRemoval("keda", "").withRemoval("keda", "1")
	require.Empty(t, seen(again, unmarked).observe(own, nil, kyma, nil, b).Manifests,
		"the annotation was set, cleared and set again")
}

// A user can delete a Manifest after a round has restored deleted Manifests and before the round writes the bundle. If
// the agent then created a new Manifest for the next version, its inventory would be empty, and the upgrade would not
// prune any objects.
func TestManifestDeletedDuringARoundKeepsItsInventory(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background() // also used during cleanup
	w.Restorer = &Restorer{Client: cluster, Uncached: cluster, Signer: w.Records.Signer}
	deleteMemory(t)
	b := bundleOf(module("keda", "1.0.0"))
	w.sync(b)
	keda, list := &v1beta2.Manifest{}, []v1beta2.Resource{{Name: "operator", Namespace: "keda"}}
	require.True(t, w.get(keda, "keda"))
	keda.Status.Synced, keda.Status.State = list, v1beta2.StateReady
	require.NoError(t, cluster.Status().Update(ctx, keda))
	_, err := w.Restorer.Restore(ctx, b)
	require.NoError(t, err)

	require.NoError(t, cluster.Delete(ctx, keda))
	next := bundleOf(module("keda", "2.0.0"), module("nats", "2.0.0"))
	w.sync(next)
	require.True(t, w.get(keda, "keda"))
	require.Equal(t, list, keda.Status.Synced)
	require.Equal(t, "1.0.0", keda.Spec.Version, "the Manifest must be restored before it is upgraded")
	require.False(t, record.ReadUnverified(keda).Restoring)
	require.True(t, w.get(&v1beta2.Manifest{}, "nats"), "a new module must not wait")
	w.sync(next)
	require.True(t, w.get(keda, "keda"))
	require.Equal(t, list, keda.Status.Synced)
	require.Equal(t, "2.0.0", keda.Spec.Version)
}

// A user deletes the Manifest CRD, and the next bundle removes a module. If the agent did not restore the module's
// Manifest, the module's objects would stay.
func TestMissingManifestIsRestoredForItsRemoval(t *testing.T) {
	for _, deleting := range []bool{false, true} {
		t.Run(fmt.Sprint("Kyma is deleted: ", deleting), func(t *testing.T) {
			w := newWorld(t)
			w.Restorer = &Restorer{Client: cluster, Uncached: cluster, Signer: w.Records.Signer}
			deleteMemory(t)
			b := bundleOf(module("keda", "1.0.0"))
			w.sync(b)
			keda, list := &v1beta2.Manifest{}, []v1beta2.Resource{{Name: "operator", Namespace: "keda"}}
			require.True(t, w.get(keda, "keda"))
			keda.Status.Synced, keda.Status.State = list, v1beta2.StateReady
			require.NoError(t, cluster.Status().Update(t.Context(), keda))
			_, err := w.Restorer.Restore(t.Context(), b)
			require.NoError(t, err)
			require.NoError(t, cluster.Delete(t.Context(), keda))

			b = bundleOf()
			b.Statement.Predicate.Removals, b.Statement.Predicate.Deleting = []string{"keda"}, deleting
			restored, err := w.Restorer.Restore(t.Context(), b)
			require.NoError(t, err)
			require.Equal(t, []string{"Manifest keda"}, restored)
			require.Equal(t, []string{"keda"}, w.Restorer.UnremovedModules(b), "the removal must not be reported as complete")
			require.True(t, w.get(keda, "keda"))
			require.Equal(t, list, keda.Status.Synced, "the removal needs the inventory")

			w.sync(b)
			require.False(t, w.get(keda, "keda"))
			for range 2 {
				restored, err = w.Restorer.Restore(t.Context(), b)
				require.NoError(t, err)
				require.Empty(t, restored, "a removed Manifest must not be restored")
				require.Empty(t, w.Restorer.UnremovedModules(b))
			}
		})
	}
}

func TestRemovalContinuesAfterInterruptedRestore(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background() // also used during cleanup
	w.Restorer = &Restorer{Client: cluster, Uncached: cluster, Signer: w.Records.Signer}
	deleteMemory(t)
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
	_, err := w.Restorer.Restore(ctx, b)
	require.NoError(t, err)
	for _, deleting := range []bool{false, true} {
		b.State.Manifests, b.Statement.Predicate.Removals, b.Statement.Predicate.Deleting = nil, []string{"keda"},
			deleting
		w.sync(b)
		change(func() {
			r := w.Records.Read(keda)
			r.Restoring, keda.Status.Synced = true, nil
			require.NoError(t, w.Records.Set(keda, r))
		})
		_, err = w.Restorer.Restore(ctx, b)
		require.NoError(t, err)
		require.False(t, w.get(keda, "keda"), "the Manifest must still be in deletion")
		require.False(t, record.ReadUnverified(keda).Restoring, "the installer must reconcile the Manifest")
		require.True(t, w.Records.HasRemoval(keda))
		require.Equal(t, list, keda.Status.Synced, "the removal needs the inventory")
	}
}

// full is a client that fails to create Secrets, as if a quota were exceeded.
type full struct{ client.Client }

func (f full) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if secret, ok := o.(*corev1.Secret); ok {
		return apierrors.NewForbidden(corev1.Resource("secrets"), secret.Name, errors.New("exceeded quota"))
	}
	return f.Client.Create(ctx, o, opts...)
}

func TestUnsavedAgentMemoryDoesNotBlockRestoreOrRemoval(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.Restorer = &Restorer{Client: cluster, Uncached: full{cluster}, Signer: w.Records.Signer}
	b := bundleOf(module("keda", "1.0.0"), module("nats", "1.0.0"))
	w.sync(b)
	_, err := w.Restorer.Restore(ctx, b)
	require.ErrorContains(t, err, "exceeded quota")
	require.NoError(t, cluster.DeleteAllOf(ctx, &v1beta2.Manifest{}, client.InNamespace(namespace)))
	restored, err := w.Restorer.Restore(ctx, b)
	require.ErrorContains(t, err, "exceeded quota")
	require.Equal(t, []string{"Manifest keda", "Manifest nats"}, restored)

	b.State.Manifests, b.Statement.Predicate.Removals = b.State.Manifests[1:], []string{"keda"}
	w.sync(b)
	require.False(t, w.get(&v1beta2.Manifest{}, "keda"))
	restored, err = w.Restorer.Restore(ctx, b)
	require.ErrorContains(t, err, "exceeded quota")
	require.Empty(t, restored)

	b.Statement.Predicate.Deleting = true
	w.sync(b)
	require.False(t, w.get(&v1beta2.Manifest{}, "nats"))

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: MemorySecret}}
	require.NoError(t, cluster.Create(ctx, secret))
	t.Cleanup(func() { _ = cluster.Delete(context.Background(), secret) })
	_, err = w.Restorer.Restore(ctx, b)
	require.NoError(t, err, "an existing Secret can be updated")
}

func signer(t *testing.T) trust.Signer {
	t.Helper()
	key, err := trust.GenerateKey()
	require.NoError(t, err)
	signer, err := trust.LoadSigner(key)
	require.NoError(t, err)
	return signer
}

// deleteMemory deletes the agent's memory now and after the test, because each test uses a different key.
func deleteMemory(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	forget := func() {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: MemorySecret}}
		require.NoError(t, client.IgnoreNotFound(cluster.Delete(ctx, secret)))
	}
	forget()
	t.Cleanup(forget)
}

func TestAgentMemorySignedWithAnotherKeyIsIgnored(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	deleteMemory(t)
	own := w.Records.Signer
	keeper := &Restorer{Client: cluster, Uncached: cluster, Signer: own}
	w.Restorer = keeper
	b := bundleOf(module("keda", "1.0.0"))
	w.sync(b)
	_, err := keeper.Restore(ctx, b)
	require.NoError(t, err)
	forget := func() {
		require.NoError(t, cluster.DeleteAllOf(ctx, &v1beta2.Manifest{}, client.InNamespace(namespace)))
		require.NoError(t, cluster.DeleteAllOf(ctx, &v1beta2.Kyma{}, client.InNamespace(namespace)))
	}
	forget()
	restored, err := (&Restorer{Client: cluster, Uncached: cluster, Signer: signer(t)}).Restore(ctx, b)
	require.ErrorContains(t, err, "signature does not match the key of this agent")
	require.Empty(t, restored)

	restored, err = (&Restorer{Client: cluster, Uncached: cluster, Signer: own}).Restore(ctx, b)
	require.NoError(t, err)
	require.Equal(t, []string{"Kyma default", "Manifest keda"}, restored)
	require.True(t, w.get(&v1beta2.Manifest{}, "keda"))

	b.State.Manifests, b.Statement.Predicate.Removals = nil, []string{"keda"}
	w.sync(b)
	forget()
	restored, err = keeper.Restore(ctx, b)
	require.NoError(t, err)
	require.Equal(t, []string{"Kyma default"}, restored, "a removed module must not be restored")
}

func TestAgentMemoryKeepsCheckResults(t *testing.T) {
	known := agentMemory{
		Checks: []checks.Record{{Module: "keda", Version: "1.0.0", States: []checks.State{{Name: "a", Before: "0.5"}}}},
	}
	require.Equal(t, known.Checks, known.observe(record.Store{}, nil, nil, nil, nil).withRemoval("keda", "1").Checks)
}

// Another client restores an earlier record, and deletes the Manifest after the agent has saved it.
func TestAgentMemoryIgnoresRestoredEarlierRecord(t *testing.T) {
	book := record.Store{Signer: signer(t), Revisions: record.NewRevisions()}
	at := func(m *v1beta2.Manifest, version string) []v1beta2.Manifest {
		m.ResourceVersion = version
		return []v1beta2.Manifest{*m.DeepCopy()}
	}
	m := installed("keda", "1")
	m.Namespace = namespace
	require.NoError(t, book.Set(&m, record.Record{Applied: &record.AppliedVersion{Version: "1.0.0"}}))
	earlier := at(&m, "10")
	memory := agentMemory{}.observe(book, nil, nil, earlier, nil)
	newest := record.Record{Applied: &record.AppliedVersion{Version: "2.0.0"}}
	require.NoError(t, book.Set(&m, newest))
	memory = memory.observe(book, nil, nil, at(&m, "11"), nil)
	earlier[0].ResourceVersion = "12"
	memory = memory.observe(book, nil, nil, earlier, nil)
	saved := memory.Manifests[0]
	require.Equal(t, m.Annotations, saved.Annotations)
	require.Equal(t, int64(2), saved.Revision)
	deleted := earlier[0].DeepCopy()
	delete(deleted.Annotations, v1beta2.AnnotationRecord)
	memory = memory.observe(book, nil, nil, []v1beta2.Manifest{*deleted}, nil)
	require.Equal(t, m.Annotations, memory.Manifests[0].Annotations)
}

func TestRestartedAgentReadsRecordRevisions(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	deleteMemory(t)
	w.Records.Revisions = record.NewRevisions()
	keeper := &Restorer{
		Client: cluster, Uncached: cluster, Signer: w.Records.Signer, Revisions: w.Records.Revisions,
	}
	w.Restorer = keeper
	b := bundleOf(module("keda", "1.0.0"))
	w.sync(b)
	m := &v1beta2.Manifest{}
	require.True(t, w.get(m, "keda"))
	require.NoError(t, w.Records.Set(m, record.Record{Applied: &record.AppliedVersion{Version: "1.0.0"}}))
	require.NoError(t, cluster.Update(ctx, m))
	w.Records.Read(m)
	_, err := keeper.Restore(ctx, b)
	require.NoError(t, err)
	known := w.Records.Revisions.Of(m)
	require.Positive(t, known)

	revisions, _, err := ReadSavedRecords(ctx, cluster, w.Records.Signer)
	require.NoError(t, err)
	require.Equal(t, known, revisions.Of(m))

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err = ReadSavedRecords(ended, cluster, w.Records.Signer)
	require.Error(t, err, "the agent must not start with unknown revisions")
}
