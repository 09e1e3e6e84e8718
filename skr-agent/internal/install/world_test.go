package install

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/hack/pristine"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/installtest"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

const home = v1beta2.RuntimeNamespace

// world is an API server with a running installer.
type world struct {
	*testing.T
	installer *Installer // the installer that was started last
	client    client.Client
	content   *contentstore.Store
	config    *rest.Config
	scheme    *runtime.Scheme
	options   Options // overrides the default options
	stop      context.CancelFunc
	stopped   chan struct{}
}

// server is the API server that all tests use, one after another.
var server struct {
	*lender.Server
	fresh *pristine.Snapshot
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.Server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "install:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// renewed restores the API server to its initial state, or starts another one.
func renewed(t *testing.T) *rest.Config {
	t.Helper()
	if server.Server != nil {
		err := server.fresh.Restore(t.Context())
		if err == nil {
			return rest.CopyConfig(server.Config)
		}
		t.Logf("failed to restore the API server, starting another one: %v", err)
		require.NoError(t, server.Stop())
	}
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{
			filepath.Join("..", "..", "..", "charts", "skr-agent", "crds"),
		}, ErrorIfCRDPathMissing: true,
	}
	env.ControlPlane.GetAPIServer().Configure().Set("disable-admission-plugins", "ServiceAccount")
	var err error
	server.Server, err = lender.Start(context.Background(), env)
	require.NoError(t, err)
	server.fresh, err = pristine.Take(t.Context(), server.Config, server.Etcd)
	require.NoError(t, err)
	return rest.CopyConfig(server.Config)
}

func newWorld(t *testing.T) *world { return newWorldWith(t, Options{}) }

func newWorldWith(t *testing.T, options Options) *world {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("needs a kube-apiserver: KUBEBUILDER_ASSETS is not set")
	}
	return newWorldAt(t, renewed(t), options)
}

// newWorldAt starts an installer for an API server.
func newWorldAt(t *testing.T, cfg *rest.Config, options Options) *world {
	ctrl.SetLogger(zap.New(zap.WriteTo(testLog{t}), zap.UseDevMode(true)))
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1beta2.AddToScheme(scheme))
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	require.NoError(t, err)
	require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}}))
	w := &world{T: t, client: c, content: contentstore.New(c, c, home), config: cfg, scheme: scheme, options: options}
	w.options.Signer = signer(t)
	w.start()
	t.Cleanup(func() { w.halt() })
	return w
}

func signer(t *testing.T) trust.Signer {
	t.Helper()
	key, err := trust.GenerateKey()
	require.NoError(t, err)
	signer, err := trust.LoadSigner(key)
	require.NoError(t, err)
	return signer
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

func (w *world) start() {
	again := true
	mgr, err := ctrl.NewManager(w.config, ctrl.Options{
		Scheme: w.scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &again},
	})
	require.NoError(w, err)
	if w.options.Render == nil {
		w.options.Render = render.Confined{}.Render
	}
	w.options.Content, w.options.CheckInterval = w.content, time.Second
	w.installer, err = Setup(mgr, w.options)
	require.NoError(w, err)
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.stopped = stop, make(chan struct{})
	go func() {
		defer close(w.stopped)
		if err := mgr.Start(ctx); err != nil {
			w.Error(err)
		}
	}()
}

func (w *world) halt() {
	w.stop()
	<-w.stopped
}

// wants creates or updates a Manifest with the given content, as package objects does.
func (w *world) wants(name string, yaml string, change ...func(*v1beta2.Manifest)) {
	w.Helper()
	d := digest.FromString(yaml)
	require.NoError(w, w.content.Put(w.Context(), d, []byte(yaml)))
	w.wantsDigest(name, d, change...)
}

func (w *world) wantsDigest(name string, d digest.Digest, change ...func(*v1beta2.Manifest)) {
	w.Helper()
	source, err := json.Marshal(v1beta2.ImageSpec{Name: name, Ref: d.String(), Type: v1beta2.OCIRef})
	require.NoError(w, err)
	m := &v1beta2.Manifest{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		_, err := ctrl.CreateOrUpdate(w.Context(), w.client, m, func() error {
			m.Labels = map[string]string{v1beta2.LabelModuleName: name}
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.AnnotationFQDN, componentOf(name))
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.AnnotationKymas, runtimeKyma)
			m.Spec.Remote = true
			m.Spec.Install = v1beta2.InstallInfo{Name: "raw-manifest", Source: runtime.RawExtension{Raw: source}}
			for _, f := range change {
				f(m)
			}
			return nil
		})
		return err
	})
	require.NoError(w, err)
}

// runtimeKyma is the name of the runtime's Kyma in the control plane.
const runtimeKyma = "kcp-system/some-kyma"

func componentOf(module string) string { return "kyma-project.io/module/" + module }

// lifecycleManagersMark returns the value of the annotation that lifecycle-manager sets on a module's objects.
func lifecycleManagersMark(module string) string {
	return takeover.OwnerAnnotations(runtimeKyma, componentOf(module), module)[0]
}

func (w *world) manifest(name string) *v1beta2.Manifest {
	w.Helper()
	m := &v1beta2.Manifest{}
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Namespace: home, Name: name}, m))
	return m
}

// remove deletes a Manifest as the agent does for a removed module.
func (w *world) remove(name string) {
	w.Helper()
	m := w.manifest(name)
	w.records(name, func(r *record.Record) { r.Removal = m.UID })
	require.NoError(w, w.client.Delete(w.Context(), m))
}

// records modifies a Manifest's record in the same way as package objects.
func (w *world) records(name string, change func(*record.Record)) {
	w.Helper()
	book := record.Store{Signer: w.options.Signer}
	require.NoError(w, book.Update(w.Context(), w.client, w.client, w.manifest(name), change))
}

// eventually waits until holds returns true. On a timeout, it logs the status of all Manifests.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	pause := 20 * time.Millisecond
	for deadline := time.Now().Add(3 * time.Minute); !holds(); pause = min(pause*5/4, 200*time.Millisecond) {
		if time.Now().After(deadline) {
			var all v1beta2.ManifestList
			_ = w.client.List(w.Context(), &all)
			for _, m := range all.Items {
				text, _ := json.MarshalIndent(m.Status, "", " ")
				w.Logf("%s: %s", m.Name, text)
			}
			w.Fatalf("timed out waiting: %s", what)
		}
		// Increase the interval, because frequent requests would slow down the installer.
		time.Sleep(pause)
	}
}

func (w *world) state(name string, state v1beta2.State, message string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s is %s: %s", name, state, message), func() bool {
		m := w.manifest(name)
		// A state of an earlier generation does not count, because a test can change the Manifest faster than the installer.
		return m.Status.ObservedGeneration == m.Generation && m.Status.State == state && m.Status.LastOperation != nil &&
			strings.Contains(m.Status.LastOperation.Operation, message)
	})
}

func (w *world) exists(o client.Object, namespace, name string) bool {
	w.Helper()
	err := w.client.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if !apierrors.IsNotFound(err) {
		require.NoError(w, err)
	}
	return err == nil
}

// Parts of the sample module in package installtest.
const (
	sampleCRD   = installtest.SampleCRD
	sampleRest  = installtest.SampleRest
	sampleExtra = installtest.SampleExtra
)

var sample, crowd = installtest.Sample, installtest.Crowd

func withDefaultCR(m *v1beta2.Manifest) {
	m.Spec.Resource = sample("default", "")
	m.Spec.CustomResourcePolicy = v1beta2.PolicyCreateAndDelete
}

// runs makes a Deployment ready, because this API server has no controllers.
func (w *world) runs(namespace, name string) {
	w.Helper()
	d := &appsv1.Deployment{}
	w.eventually("Deployment "+name+" exists", func() bool { return w.exists(d, namespace, name) })
	// The agent may write the Deployment at the same time.
	require.NoError(w, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		}
		return w.client.Status().Update(w.Context(), d)
	}))
}

// becomesReady reports the module's Deployment as running until the module is ready. The agent writes the Deployment
// several times while it adopts the module.
func (w *world) becomesReady(module, deployment string) {
	w.Helper()
	w.eventually(module+" is ready", func() bool {
		if w.manifest(module).Status.State == v1beta2.StateReady {
			return true
		}
		w.runs(home, deployment)
		return false
	})
}

// objects returns the rendered objects of a module.
func objects(t *testing.T, yaml string) []*unstructured.Unstructured {
	t.Helper()
	found, err := render.Render(render.Input{Content: []byte(yaml), Packed: v1beta2.OCIRef})
	require.NoError(t, err)
	return found
}

// ofKind returns an object with the name x.
func ofKind(apiVersion, kind, recreate string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetName("x")
	if recreate != "" {
		o.SetAnnotations(map[string]string{v1beta2.AnnotationRecreate: recreate})
	}
	return o
}

// named returns the kinds and names of resources.
func named(resources []v1beta2.Resource) string {
	names := make([]string, len(resources))
	for i, r := range resources {
		names[i] = object.KeyOf(r).String()
	}
	return strings.Join(names, ", ")
}
