package objects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/window"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/secrets"
)

// cluster is the API server for all tests of this package. It is nil if kube-apiserver is not available.
var cluster client.Client

func TestMain(m *testing.M) {
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withCluster(run func() int) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return run(), nil
	}
	server, err := lender.Start(context.Background(), &envtest.Environment{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta2.AddToScheme(scheme)); err != nil {
		return 0, err
	}
	if cluster, err = client.New(server.Config, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	if err := EnsureFoundation(context.Background(), cluster); err != nil {
		return 0, err
	}
	return run(), nil
}

// world is a runtime without Kyma objects.
type world struct {
	*testing.T
	*Syncer
	writes int
}

type counting struct {
	client.Client
	world *world
}

func (c counting) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	c.world.writes++
	return c.Client.Create(ctx, o, opts...)
}

func (c counting) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	c.world.writes++
	return c.Client.Patch(ctx, o, p, opts...)
}

func (c counting) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	c.world.writes++
	return c.Client.Delete(ctx, o, opts...)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if cluster == nil {
		t.Skip("needs a kube-apiserver: KUBEBUILDER_ASSETS is not set")
	}
	w := &world{T: t}
	w.Syncer = &Syncer{
		Client: counting{cluster, w}, Secrets: &secrets.Reconciler{}, Records: record.Store{Signer: signer(t)},
	}
	for _, o := range []client.Object{&v1beta2.Kyma{}, &v1beta2.Manifest{}, &v1beta2.ModuleTemplate{},
		&v1beta2.ModuleReleaseMeta{}} {
		require.NoError(t, cluster.DeleteAllOf(t.Context(), o, client.InNamespace(namespace)))
	}
	return w
}

// get reads an object. It returns false if the object is missing or being deleted.
func (w *world) get(o client.Object, name string) bool {
	w.Helper()
	err := cluster.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	require.NoError(w, client.IgnoreNotFound(err))
	return err == nil && o.GetDeletionTimestamp().IsZero()
}

func (w *world) sync(b *bundle.Bundle) {
	w.Helper()
	require.NoError(w, w.Sync(w.Context(), b, nil, maintenance.Gate{}, time.Now()).Err())
}

func module(name, version string) bundle.Manifest {
	return bundle.Manifest{
		Name: name, Module: name, Version: version, Labels: map[string]string{
			v1beta2.LabelModuleName: name, v1beta2.LabelManagedBy: v1beta2.ManagedByKyma,
		},
		Spec: v1beta2.ManifestSpec{Remote: true, Version: version, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
			Install: v1beta2.InstallInfo{
				Name: "raw-manifest", Source: runtime.RawExtension{
					Raw: []byte(`{"type": "raw-manifest", "ref": "sha256:` + version + `"}`),
				},
			}},
	}
}

func bundleOf(modules ...bundle.Manifest) *bundle.Bundle {
	b := &bundle.Bundle{}
	b.State.Kyma = bundle.KymaSeed{Spec: v1beta2.KymaSpec{Channel: "regular"}, Labels: map[string]string{"team": "a"}}
	b.State.Manifests = modules
	return b
}

func entry(name, spec string) bundle.CatalogEntry {
	return bundle.CatalogEntry{Name: name, Labels: map[string]string{"from": "catalog"}, Spec: []byte(spec)}
}

func TestUnchangedBundleCausesNoWrites(t *testing.T) {
	w := newWorld(t)
	b := bundleOf(module("keda", "1.0.0"))
	b.Modules.ModuleReleaseMetas = []bundle.CatalogEntry{
		entry("keda", `{"moduleName": "keda", "channels": [{"channel": "regular", "version": "1.0.0"}]}`),
	}
	b.State.Settings.Mirrors = map[string]string{"docker.io": "mirror.example"}
	w.sync(b)
	require.Positive(t, w.writes)
	w.writes = 0
	w.sync(b)
	require.Zero(t, w.writes)
}

func TestAgentCreatesKymaOnceAndKeepsUserChanges(t *testing.T) {
	w := newWorld(t)
	w.sync(bundleOf())
	kyma := &v1beta2.Kyma{}
	require.True(t, w.get(kyma, v1beta2.RuntimeKymaName))
	require.Equal(t, "regular", kyma.Spec.Channel)
	kyma.Spec.Channel, kyma.Labels = "fast", map[string]string{"mine": "too"}
	require.NoError(t, cluster.Update(t.Context(), kyma))
	w.sync(bundleOf())
	require.True(t, w.get(kyma, v1beta2.RuntimeKymaName))
	require.Equal(t, "fast", kyma.Spec.Channel, "the spec belongs to the runtime")
	require.Equal(t, map[string]string{"mine": "too", "team": "a"}, kyma.Labels)
}

func TestDroppedLabelsAreRemovedAndUserLabelsStay(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	b := bundleOf()
	b.State.Kyma.Labels = map[string]string{"beta": "true", "purpose": "test", "taken": "over", "team": "a"}
	keda := entry("keda", `{"moduleName": "keda", "channels": [{"channel": "regular", "version": "1.0.0"}]}`)
	keda.Labels, keda.Annotations = map[string]string{"beta": "true", "team": "a"}, map[string]string{"doc": "here"}
	b.Modules.ModuleReleaseMetas = []bundle.CatalogEntry{keda}
	w.sync(b)
	kyma, meta := &v1beta2.Kyma{}, &v1beta2.ModuleReleaseMeta{}
	is := func(o client.Object, name string, labels, annotations map[string]string) {
		t.Helper()
		require.True(t, w.get(o, name))
		require.Equal(t, labels, o.GetLabels())
		require.Equal(t, annotations, o.GetAnnotations())
	}
	mine := func(o client.Object, name string) {
		t.Helper()
		require.True(t, w.get(o, name))
		before := o.DeepCopyObject().(client.Object)
		o.SetLabels(mergeEntries(o.GetLabels(), map[string]string{"mine": "too", "taken": "by-me"}))
		o.SetAnnotations(mergeEntries(o.GetAnnotations(), map[string]string{
			"mine": "too", v1beta2.AnnotationPinnedVersions: "keda=1.0.0",
		}))
		require.NoError(t, cluster.Patch(ctx, o, client.MergeFrom(before), client.FieldOwner("kubectl")))
	}
	mine(kyma, v1beta2.RuntimeKymaName)
	mine(meta, "keda")
	b.State.Kyma.Labels = map[string]string{"team": "b"}
	b.Modules.ModuleReleaseMetas[0].Labels, b.Modules.ModuleReleaseMetas[0].Annotations = map[string]string{
		"team": "b",
	}, nil
	w.sync(b)
	theirs := map[string]string{"mine": "too", v1beta2.AnnotationPinnedVersions: "keda=1.0.0"}
	is(kyma, v1beta2.RuntimeKymaName, map[string]string{"team": "b", "mine": "too", "taken": "by-me"}, theirs)
	is(meta, "keda",
		map[string]string{"team": "b", "mine": "too", "taken": "by-me", v1beta2.LabelManagedBy: v1beta2.ManagedByKyma},
		theirs)

	// Earlier agent versions sent requests without a field manager.
	before := kyma.DeepCopy()
	kyma.Labels["beta"] = "true"
	require.NoError(t, cluster.Patch(ctx, kyma, client.MergeFrom(before), client.FieldOwner(defaultOwner)))
	w.sync(b)
	is(kyma, v1beta2.RuntimeKymaName, map[string]string{"team": "b", "mine": "too", "taken": "by-me"}, theirs)
	w.writes = 0
	w.sync(b)
	require.Zero(t, w.writes)
}

func TestCatalogFollowsTheBundleAndKeepsUserObjects(t *testing.T) {
	w := newWorld(t)
	own := &v1beta2.ModuleReleaseMeta{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"},
		Spec: v1beta2.ModuleReleaseMetaSpec{
			ModuleName: "own", Channels: []v1beta2.ChannelVersion{{Channel: "regular", Version: "1.0.0"}},
		}}
	require.NoError(t, cluster.Create(t.Context(), own))
	b := bundleOf()
	b.Modules.ModuleReleaseMetas = []bundle.CatalogEntry{
		entry("keda",
			`{"moduleName": "keda", "channels": [{"channel": "regular", "version": "1.0.0"}, {"channel": "fast", "version": "1.1.0"}]}`),
		entry("nats", `{"moduleName": "nats", "channels": [{"channel": "regular", "version": "1.0.0"}]}`),
	}
	w.sync(b)
	meta := &v1beta2.ModuleReleaseMeta{}
	require.True(t, w.get(meta, "nats"))
	require.Equal(t, v1beta2.ManagedByKyma, meta.Labels[v1beta2.LabelManagedBy])
	b.Modules.ModuleReleaseMetas = []bundle.CatalogEntry{
		entry("keda", `{"moduleName": "keda", "channels": [{"channel": "regular", "version": "1.0.0"}]}`),
	}
	w.sync(b)
	require.True(t, w.get(meta, "keda"))
	require.Len(t, meta.Spec.Channels, 1, "a channel that is not in the catalog must be removed")
	require.False(t, w.get(&v1beta2.ModuleReleaseMeta{}, "nats"))
	require.True(t, w.get(&v1beta2.ModuleReleaseMeta{}, "own"))
}

func TestManifestIsRemovedOnlyIfBundleListsRemoval(t *testing.T) {
	w := newWorld(t)
	dashed := module("team-nats", "1.0.0")
	dashed.Module, dashed.Annotations = "team/nats", map[string]string{v1beta2.AnnotationModule: "team/nats"}
	w.sync(bundleOf(module("keda", "1.0.0"), dashed))
	w.sync(bundleOf())
	require.True(t, w.get(&v1beta2.Manifest{}, "keda"), "a Manifest that is missing in the bundle must not be removed")
	b := bundleOf()
	b.Statement.Predicate.Removals = []string{"team/nats"}
	w.sync(b)
	require.True(t, w.get(&v1beta2.Manifest{}, "keda"))
	require.False(t, w.get(&v1beta2.Manifest{}, "team-nats"))
}

func TestSyncLabelsAgentNamespace(t *testing.T) {
	w := newWorld(t)
	var labeled []map[string]string
	w.Label = func(_ context.Context, want map[string]string) error {
		labeled = append(labeled, want)
		return nil
	}
	b, begin := bundleOf(), time.Now()
	at := func(later time.Duration) { w.Sync(t.Context(), b, nil, maintenance.Gate{}, begin.Add(later)) }
	at(0)
	at(time.Second)
	require.Equal(t, []map[string]string{{v1beta2.LabelManagedBy: "kyma"}}, labeled)
	b.State.Settings.NamespaceLabels = map[string]string{"istio-injection": "enabled"}
	at(2 * time.Second)
	require.Equal(t, map[string]string{v1beta2.LabelManagedBy: "kyma", "istio-injection": "enabled"}, labeled[1])
	at(2*time.Second + labelInterval)
	require.Len(t, labeled, 3, "labels must be checked again after labelInterval")

	narrow := fmt.Errorf("read: %w",
		apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, namespace, errors.New("no")))
	w.Label = func(context.Context, map[string]string) error { return narrow }
	require.ErrorIs(t, w.Sync(t.Context(), b, nil, maintenance.Gate{}, begin.Add(time.Hour)).Err(), narrow)
	b.State.Settings.NamespaceLabels = nil
	require.NoError(t, w.Sync(t.Context(), b, nil, maintenance.Gate{}, begin.Add(2*time.Hour)).Err(),
		"without labels in the settings, a missing permission must not be an error")
	w.Label = func(context.Context, map[string]string) error { return fmt.Errorf("%w: no", guard.ErrExposed) }
	require.ErrorIs(t, w.Sync(t.Context(), b, nil, maintenance.Gate{}, begin.Add(3*time.Hour)).Err(), guard.ErrExposed)
}

// An agent of version 0.1.0 stored a removal in an unsigned annotation.
func TestRemovalStartedByVersion010Continues(t *testing.T) {
	w := newWorld(t)
	w.sync(bundleOf(module("keda", "1.0.0")))
	manifest := &v1beta2.Manifest{}
	require.True(t, w.get(manifest, "keda"))
	manifest.Finalizers = []string{v1beta2.FinalizerManifest}
	manifest.Annotations = map[string]string{"kyma-pull.dev/removal": "true"}
	require.NoError(t, cluster.Update(t.Context(), manifest))
	require.NoError(t, cluster.Delete(t.Context(), manifest))
	removal := bundleOf()
	removal.Statement.Predicate.Removals = []string{"keda"}
	w.sync(removal)
	require.False(t, w.get(manifest, "keda"), "the Manifest must be in deletion")
	require.True(t, w.Records.HasRemoval(manifest))
	require.NotContains(t, manifest.Annotations, "kyma-pull.dev/removal")
	manifest.Finalizers = nil
	require.NoError(t, cluster.Update(t.Context(), manifest))
}

func TestFrozenBundleDoesNotChangeARemovedModule(t *testing.T) {
	w := newWorld(t)
	w.sync(bundleOf(module("keda", "1.0.0")))
	manifest := &v1beta2.Manifest{}
	require.True(t, w.get(manifest, "keda"))
	manifest.Finalizers = []string{v1beta2.FinalizerManifest}
	require.NoError(t, cluster.Update(t.Context(), manifest))
	removal := bundleOf()
	removal.Statement.Predicate.Removals = []string{"keda"}
	w.sync(removal)
	leaving := bundleOf()
	leaving.State.Leaving = []bundle.Manifest{module("keda", "2.0.0")}
	for _, b := range []*bundle.Bundle{leaving, bundleOf(module("keda", "2.0.0"))} {
		frozen := maintenance.New(b, "the key was revoked", nil, nil, time.Now())
		require.NoError(t, w.Sync(t.Context(), b, nil, frozen, time.Now()).Err())
		require.False(t, w.get(manifest, "keda"))
		require.Equal(t, "1.0.0", manifest.Spec.Version)
	}
	w.sync(leaving)
	require.False(t, w.get(manifest, "keda"))
	require.Equal(t, "2.0.0", manifest.Spec.Version, "a newer version may be able to complete the removal")
	leaving.State.Leaving = []bundle.Manifest{module("keda", "1.9.0")}
	w.sync(leaving)
	require.False(t, w.get(manifest, "keda"))
	require.Equal(t, "2.0.0", manifest.Spec.Version, "a removal must not downgrade the module")
	manifest.Finalizers = nil
	require.NoError(t, cluster.Update(t.Context(), manifest))
}

func TestUnmanagedModuleIsMarkedBeforeManifestIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.sync(bundleOf(module("keda", "1.0.0")))
	manifest := &v1beta2.Manifest{}
	require.True(t, w.get(manifest, "keda"))
	manifest.Finalizers = []string{"kyma-pull.dev/test"} // like the installer's finalizer
	require.NoError(t, cluster.Update(t.Context(), manifest))
	unmanaged := module("keda", "1.0.0")
	unmanaged.Unmanaged = true
	w.SyncStaged(t.Context(), bundleOf(unmanaged, module("nats", "1.0.0")), nil, maintenance.Gate{}, time.Now())
	require.True(t, w.get(manifest, "keda"), "SyncStaged must not remove unmanaged modules")
	require.True(t, w.get(&v1beta2.Manifest{}, "nats"))
	w.sync(bundleOf(unmanaged))
	require.False(t, w.get(manifest, "keda"))
	require.Equal(t, v1beta2.True, manifest.Annotations[v1beta2.AnnotationUnmanaged])
	require.Equal(t, record.Record{Removal: manifest.UID, Unmanaged: true}, w.Records.Read(manifest))
	manifest.Finalizers = nil
	require.NoError(t, cluster.Update(t.Context(), manifest))
}

func TestModuleBecomesUnmanagedDuringItsRemoval(t *testing.T) {
	w := newWorld(t)
	w.sync(bundleOf(module("keda", "1.0.0")))
	manifest := &v1beta2.Manifest{}
	require.True(t, w.get(manifest, "keda"))
	manifest.Finalizers = []string{"kyma-pull.dev/test"} // like the installer's finalizer
	require.NoError(t, cluster.Update(t.Context(), manifest))
	removal := bundleOf()
	removal.Statement.Predicate.Removals = []string{"keda"}
	w.sync(removal)
	require.False(t, w.get(manifest, "keda"))
	require.Equal(t, record.Record{Removal: manifest.UID}, w.Records.Read(manifest))

	unmanaged := module("keda", "1.0.0")
	unmanaged.Unmanaged = true
	w.sync(bundleOf(unmanaged))
	require.False(t, w.get(manifest, "keda"))
	require.Equal(t, record.Record{Removal: manifest.UID, Unmanaged: true}, w.Records.Read(manifest))
	w.sync(removal)
	require.False(t, w.get(manifest, "keda"))
	require.True(t, w.Records.Read(manifest).Unmanaged, "the released objects must stay")
	manifest.Finalizers = nil
	require.NoError(t, cluster.Update(t.Context(), manifest))
}

func TestUpgradeWaitsForContentAndMaintenanceWindow(t *testing.T) {
	w := newWorld(t)
	w.sync(bundleOf(module("keda", "1.0.0"), module("nats", "1.0.0"), module("istio", "1.0.0")))
	newer := bundleOf(module("keda", "2.0.0"), module("nats", "2.0.0"), module("istio", "2.0.0"))
	newer.State.Manifests[1].RequiresDowntime = true
	newer.State.Maintenance = &window.Schedule{}
	gate := maintenance.New(newer, "", nil, nil, time.Now())
	require.NoError(t,
		w.Sync(t.Context(), newer, map[string]error{"keda": errors.New("content is missing")}, gate, time.Now()).Err())
	for name, want := range map[string]string{"keda": "1.0.0", "nats": "1.0.0", "istio": "2.0.0"} {
		manifest := &v1beta2.Manifest{}
		require.True(t, w.get(manifest, name))
		require.Equal(t, want, manifest.Spec.Version, name)
	}
}

func TestDeletedKymaIsRemovedLast(t *testing.T) {
	w := newWorld(t)
	b := bundleOf(module("keda", "1.0.0"))
	b.Modules.ModuleReleaseMetas = []bundle.CatalogEntry{
		entry("keda", `{"moduleName": "keda", "channels": [{"channel": "regular", "version": "1.0.0"}]}`),
	}
	w.sync(b)
	b.Statement.Predicate.Deleting = true
	w.sync(b)
	require.False(t, w.get(&v1beta2.Manifest{}, "keda"))
	require.True(t, w.get(&v1beta2.ModuleReleaseMeta{}, "keda"))
	require.True(t, w.get(&v1beta2.Kyma{}, v1beta2.RuntimeKymaName), "the Kyma must stay while other objects exist")
	w.sync(b)
	require.False(t, w.get(&v1beta2.ModuleReleaseMeta{}, "keda"))
	require.False(t, w.get(&v1beta2.Kyma{}, v1beta2.RuntimeKymaName))
	w.writes = 0
	w.sync(b)
	require.Zero(t, w.writes)
}

func TestAgentStartsDespiteWebhookForCRDs(t *testing.T) {
	if cluster == nil {
		t.Skip("needs a kube-apiserver: KUBEBUILDER_ASSETS is not set")
	}
	dead, fail, none := "https://127.0.0.1:1/", admissionv1.Fail, admissionv1.SideEffectClassNone
	webhook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "dead"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "dead.example.org", ClientConfig: admissionv1.WebhookClientConfig{URL: &dead}, FailurePolicy: &fail,
			SideEffects:             &none,
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule: admissionv1.Rule{
					APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"},
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{namespace},
			}}},
		}},
	}
	require.NoError(t, cluster.Create(t.Context(), webhook))
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.Background(), webhook)) })
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{
			"name": "manifests.operator.kyma-project.io",
		},
	}}
	require.Eventually(t, func() bool {
		err := cluster.Patch(t.Context(), definition.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
		return err != nil
	}, time.Minute, 50*time.Millisecond, "the webhook must block updates of CRDs")
	require.NoError(t, EnsureFoundation(t.Context(), cluster))
}
