package pull

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
)

// failingClient is a client that fails after a number of writes, like a crashed process.
type failingClient struct {
	client.Client
	left int
}

var errDied = errors.New("died")

// isReview reports whether a request reviews the agent's permissions. Such a request writes nothing.
func isReview(o client.Object) bool {
	_, is := o.(*authorizationv1.SelfSubjectAccessReview)
	return is
}

func (d *failingClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if isReview(o) {
		return d.Client.Create(ctx, o, opts...)
	}
	if d.left--; d.left < 0 {
		return errDied
	}
	return d.Client.Create(ctx, o, opts...)
}

func (d *failingClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if d.left--; d.left < 0 {
		return errDied
	}
	return d.Client.Update(ctx, o, opts...)
}

// world contains a runtime's API server, a folder in place of the registry, and the keys of a fleet.
type world struct {
	*testing.T
	client    client.Client
	namespace string
	place     store.Store
	now       time.Time
	rootKey   trust.Signer
	publisher trust.Signer
	agentKey  trust.Signer
	pinned    trust.Root
	root      trust.Root // the newest version of the root of trust
	sequence  int64
	made      []bundle.Blob
	puller    *Puller
	// settings are the settings of the next bundles.
	settings bundle.Settings
	// registries and open are set only for a fleet whose registry moves.
	registries *store.Registries
	open       func(string, *store.Registries) (store.Store, error)
}

func newKey(t *testing.T) trust.Signer {
	t.Helper()
	data, err := trust.GenerateKey()
	require.NoError(t, err)
	signer, err := trust.LoadSigner(data)
	require.NoError(t, err)
	return signer
}

// server is the API server of all tests. The first test starts it.
var server *lender.Server

var apiServer = sync.OnceValues(func() (*rest.Config, error) {
	var err error
	if server, err = lender.Start(context.Background(), &envtest.Environment{}); err != nil {
		return nil, err
	}
	return server.Config, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pull:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("needs a kube-apiserver: KUBEBUILDER_ASSETS is not set")
	}
	cfg, err := apiServer()
	require.NoError(t, err)
	known := runtime.NewScheme()
	require.NoError(t, errors.Join(scheme.AddToScheme(known), v1beta2.AddToScheme(known)))
	c, err := client.New(cfg, client.Options{Scheme: known})
	require.NoError(t, err)
	w := &world{T: t, client: c, rootKey: newKey(t), agentKey: newKey(t)}
	w.begin(strings.ToLower(t.Name()))
	return w
}

// begin creates a runtime in its own namespace and a fleet with new keys.
func (w *world) begin(namespace string) {
	w.Helper()
	require.NoError(w, w.client.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	w.namespace, w.sequence, w.made = namespace, 0, nil
	w.newFleet()
	var err error
	w.place, err = store.Open(store.LayoutScheme+filepath.Join(w.TempDir(), "registry"), nil)
	require.NoError(w, err)
	require.NoError(w, store.PushRoot(w.Context(), w.place, w.root))
	w.restart()
}

// newFleet creates the publisher's key and the root of trust.
func (w *world) newFleet() {
	w.Helper()
	w.publisher = newKey(w.T)
	w.now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	public, err := w.publisher.PublicKey()
	require.NoError(w, err)
	data, err := trusttest.NewRoot(w.rootKey, []crypto.PublicKey{public}, w.now.AddDate(1, 0, 0))
	require.NoError(w, err)
	w.root, err = trust.ParseRoot(data)
	require.NoError(w, err)
	w.pinned = w.root
}

// unrestored returns the Puller of an agent that has started but has not restored its state yet.
func (w *world) unrestored(c client.Client) *Puller {
	w.Helper()
	p := New(Options{
		ConfiguredLocation: w.place, Client: c, Namespace: w.namespace, Store: contentstore.New(c, c, w.namespace),
		Trust: bundle.Trust{Root: w.pinned, Runtime: runtimeID}, Now: func() time.Time { return w.now },
		Registries: w.registries, Key: w.agentKey,
	})
	if w.open != nil {
		p.openStore = w.open
	}
	return p
}

// started returns the Puller of an agent that has started and restored its state.
func (w *world) started(c client.Client) *Puller {
	w.Helper()
	p := w.unrestored(c)
	require.NoError(w, p.Restore(w.Context()))
	return p
}

func (w *world) restart() { w.puller = w.started(w.client) }

// rotate publishes a root of trust in which a new key replaces the publisher's key.
func (w *world) rotate() {
	w.Helper()
	w.publishRoot(func(draft *trust.RootDraft) {
		require.NoError(w, draft.Remove(trust.RolePublisher, w.root.Publishers()...))
		w.publisher = newKey(w.T)
		public, err := w.publisher.PublicKey()
		require.NoError(w, err)
		require.NoError(w, draft.Add(trust.RolePublisher, public))
	})
}

// publishRoot publishes the next version of the root of trust.
func (w *world) publishRoot(change func(draft *trust.RootDraft)) {
	w.Helper()
	draft, err := w.root.Draft(w.now.AddDate(1, 0, 0))
	require.NoError(w, err)
	change(draft)
	require.NoError(w, draft.Sign(w.rootKey))
	data, err := draft.Bytes()
	require.NoError(w, err)
	w.root, err = trust.ParseRoot(data)
	require.NoError(w, err)
	require.NoError(w, store.PushRoot(w.Context(), w.place, w.root))
}

// signed signs and pushes the next bundle. The function change modifies the bundle's statement first.
func (w *world) signed(by trust.Signer, change func(*bundle.Predicate)) digest.Digest {
	w.Helper()
	documents, err := bundle.NewDocuments(
		bundle.DesiredState{
			Kyma:     bundle.KymaSeed{Spec: v1beta2.KymaSpec{Channel: fmt.Sprint("channel-", w.sequence)}},
			Settings: w.settings,
		}, bundle.Catalog{})
	require.NoError(w, err)
	p := bundle.Predicate{
		Audience: bundle.Audience{Runtime: runtimeID}, Epoch: 1, Sequence: w.sequence + 1, RootVersion: w.root.Version,
		IssuedAt: w.now, ExpiresAt: w.now.Add(time.Hour),
	}
	change(&p)
	manifest, err := bundle.Compose(documents, p, by)
	require.NoError(w, err)
	require.NoError(w, storetest.ShareDocuments(w.Context(), w.place, documents))
	w.put(manifest)
	return manifest.Descriptor.Digest
}

func (w *world) put(manifest bundle.Blob) {
	w.Helper()
	repository, err := w.place.Repository(w.Context(), bundle.DesiredRepository(runtimeID))
	require.NoError(w, err)
	require.NoError(w, store.PushManifest(w.Context(), repository, manifest, bundle.TagDesired))
}

// publish pushes the next valid bundle.
func (w *world) publish() digest.Digest {
	w.Helper()
	w.now = w.now.Add(time.Minute)
	d := w.signed(w.publisher, func(*bundle.Predicate) {})
	w.sequence++
	repository, err := w.place.Repository(w.Context(), bundle.DesiredRepository(runtimeID))
	require.NoError(w, err)
	fetched, err := store.Fetch(w.Context(), repository, d.String())
	require.NoError(w, err)
	w.made = append(w.made, bundle.Blob(fetched))
	return d
}

// kept returns the resource version of the Secret with the saved state, or "" if it does not exist.
func (w *world) kept() string {
	w.Helper()
	var secret corev1.Secret
	err := w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: StateSecret}, &secret)
	if !apierrors.IsNotFound(err) {
		require.NoError(w, err)
	}
	return secret.ResourceVersion
}

func inForce(p *Puller) digest.Digest {
	if p.Current() == nil {
		return ""
	}
	return p.Current().Digest
}

const runtimeID = "berlin"
