package pull

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
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
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/hack/lender"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
)

const runtimeID = "berlin"

// dying is a client whose process crashes after some writes.
type dying struct {
	client.Client
	left int
}

var errDied = errors.New("died")

func (d *dying) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if d.left--; d.left < 0 {
		return errDied
	}
	return d.Client.Create(ctx, o, opts...)
}

func (d *dying) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if d.left--; d.left < 0 {
		return errDied
	}
	return d.Client.Update(ctx, o, opts...)
}

// world is a runtime's API server, a folder as the registry, and the keys of a fleet.
type world struct {
	*testing.T
	client    client.Client
	namespace string
	place     store.Store
	now       time.Time
	rootKey   trust.Signer
	publisher trust.Signer
	pinned    trust.Root
	root      trust.Root // the newest
	sequence  int64
	made      []bundle.Blob
	puller    *Puller
	// settings are those of the next bundles.
	settings bundle.Settings
	// registries and open are those of a fleet whose registry moves.
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

// server is the API server of all tests, each in its own namespaces. The first test starts it.
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
	w := &world{T: t, client: c, rootKey: newKey(t)}
	w.begin(strings.ToLower(t.Name()))
	return w
}

// begin returns a runtime in its own namespace, with a new publisher's key.
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

// started returns the puller of an agent after its start.
func (w *world) started(c client.Client) *Puller {
	w.Helper()
	p := New(Options{
		Place: w.place, Client: c, Namespace: w.namespace, Store: contentstore.New(c, c, w.namespace),
		Trust: bundle.Trust{Root: w.pinned, Runtime: runtimeID}, Now: func() time.Time { return w.now },
		Registries: w.registries,
	})
	if w.open != nil {
		p.openStore = w.open
	}
	require.NoError(w, p.Restore(w.Context()))
	return p
}

func (w *world) restart() { w.puller = w.started(w.client) }

// rotate publishes the next version of the root with only a new publisher's key.
func (w *world) rotate() {
	w.Helper()
	draft, err := w.root.Draft(w.now.AddDate(1, 0, 0))
	require.NoError(w, err)
	require.NoError(w, draft.Remove(trust.RolePublisher, w.root.Publishers()...))
	w.publisher = newKey(w.T)
	public, err := w.publisher.PublicKey()
	require.NoError(w, err)
	require.NoError(w, draft.Add(trust.RolePublisher, public))
	require.NoError(w, draft.Sign(w.rootKey))
	data, err := draft.Bytes()
	require.NoError(w, err)
	w.root, err = trust.ParseRoot(data)
	require.NoError(w, err)
	require.NoError(w, store.PushRoot(w.Context(), w.place, w.root))
}

// signed pushes the next valid bundle with a change of its statement.
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
	require.NoError(w, store.ShareDocuments(w.Context(), w.place, documents))
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

// kept returns the resource version of the state Secret.
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

func TestRefusedBundleWritesNothing(t *testing.T) {
	w := newWorld(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	attacks := []struct {
		name  string
		lie   func()
		wants []refusal.Reason
	}{
		{
			"an older bundle",
			func() { w.put(w.made[random.IntN(len(w.made)-1)]) },
			[]refusal.Reason{refusal.Rollback, refusal.UnknownKey},
		},
		{
			"a stranger's bundle",
			func() { w.signed(newKey(t), func(*bundle.Predicate) {}) },
			[]refusal.Reason{refusal.UnknownKey},
		},
		{
			"another runtime's bundle",
			func() { w.signed(w.publisher, func(p *bundle.Predicate) { p.Audience.Runtime = "paris" }) },
			[]refusal.Reason{refusal.WrongRuntime},
		},
		{"an expired bundle", func() {
			w.signed(w.publisher, func(p *bundle.Predicate) {
				p.IssuedAt, p.ExpiresAt = w.now.Add(-2*time.Hour), w.now.Add(-time.Hour)
			})
		}, []refusal.Reason{refusal.Expired}},
		{
			"another bundle of the same number",
			func() { w.signed(w.publisher, func(p *bundle.Predicate) { p.Sequence-- }) },
			[]refusal.Reason{refusal.Equivocation},
		},
	}
	want := w.publish()
	for range 2 {
		_, err := w.puller.Pull(t.Context())
		require.NoError(t, err)
		want = w.publish()
	}
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	for step := range 60 {
		switch n := random.IntN(10); {
		case n == 0:
			w.rotate()
			want = w.publish()
			taken, err := w.puller.Pull(t.Context())
			require.NoError(t, err, "step %d: a rotation", step)
			require.True(t, taken)
			require.Empty(t, w.puller.Refused(), "a rotated key is not an attack")
		case n <= 2:
			want = w.publish()
			taken, err := w.puller.Pull(t.Context())
			require.NoError(t, err, "step %d: a bundle", step)
			require.True(t, taken)
		case n == 3:
			accepted, root := w.puller.accepted, w.puller.Root().Version
			w.restart()
			require.Equal(t, accepted, w.puller.accepted)
			require.Equal(t, root, w.puller.Root().Version)
		default:
			attack := attacks[random.IntN(len(attacks))]
			before := w.kept()
			attack.lie()
			_, err := w.puller.Pull(t.Context())
			refusal := refusal.Of(err)
			require.NotNil(t, refusal, "step %d: %s: %v", step, attack.name, err)
			require.True(t, slices.Contains(attack.wants, refusal.Reason), "step %d: %s: %v", step, attack.name,
				refusal)
			require.Equal(t, before, w.kept(), "step %d: %s was refused and something was written", step, attack.name)
			require.NotEmpty(t, w.puller.Refused())
		}
		require.Equal(t, want, inForce(w.puller), "step %d", step)
	}
}

// The verdict on these bundles depends on the agent's state and key.
func TestPreviewVerifiesWithoutWriting(t *testing.T) {
	w := newWorld(t)
	preview := func(thumbprint string) *Puller {
		p := New(Options{
			Place: w.place, Client: &dying{Client: w.client}, Namespace: w.namespace,
			Store: contentstore.New(w.client, &dying{Client: w.client}, w.namespace), Preview: true,
			Trust: bundle.Trust{
				Root:          w.pinned,
				Runtime:       runtimeID,
				KeyThumbprint: thumbprint,
			}, Now: func() time.Time { return w.now },
		})
		require.NoError(t, p.Restore(t.Context()))
		return p
	}
	old := w.publish()
	p := preview("mine")
	changed, err := p.Pull(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, old, inForce(p))
	require.Empty(t, w.kept(), "something was written")

	w.rotate()
	w.publish()
	_, err = w.puller.Pull(t.Context())
	require.NoError(t, err)
	before := w.kept()
	p = preview("mine")
	changed, err = p.Pull(t.Context())
	require.NoError(t, err)
	require.False(t, changed, "the one in force")
	require.EqualValues(t, 2, p.Root().Version)

	w.signed(w.publisher, func(p *bundle.Predicate) { p.Sequence = 1 })
	_, err = preview("mine").Pull(t.Context())
	require.NotNil(t, refusal.Of(err), "the agent remembers a newer one: %v", err)
	require.Equal(t, refusal.Rollback, refusal.Of(err).Reason)

	w.signed(w.publisher, func(p *bundle.Predicate) { p.Audience.KeyThumbprint = "another" })
	_, err = preview("mine").Pull(t.Context())
	require.NotNil(t, refusal.Of(err), "meant for an agent with another key: %v", err)
	require.Equal(t, refusal.WrongCluster, refusal.Of(err).Reason)
	require.Equal(t, before, w.kept(), "something was written")
}

// The agent crashes before each of its writes, with and without a newer root.
func TestCrashDuringAcceptKeepsOneCompleteBundle(t *testing.T) {
	w := newWorld(t)
	for name, rotated := range map[string]bool{"a bundle": false, "a bundle under a newer root": true} {
		t.Run(name, func(t *testing.T) {
			w.begin(map[bool]string{false: "plain", true: "rotated"}[rotated])
			old := w.publish()
			_, err := w.puller.Pull(t.Context())
			require.NoError(t, err)
			if rotated {
				w.rotate()
			}
			next := w.publish()
			died := 0
			for writes := 0; ; writes++ {
				_, err := w.started(&dying{w.client, writes}).Pull(t.Context())
				restarted := w.started(w.client)
				if err == nil {
					require.Equal(t, next, inForce(restarted))
					break
				}
				require.ErrorIs(t, err, errDied)
				died++
				require.Equal(t, old, inForce(restarted), "killed after %d writes", writes)
			}
			require.GreaterOrEqual(t, died, 3, "the documents and the statement are separate writes")
		})
	}
}

// Cluster users can edit Secrets.
func TestTamperedStateIsNotRestored(t *testing.T) {
	w := newWorld(t)
	w.publish()
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	for name, change := range map[string]func(data map[string][]byte){
		"another manifest": func(data map[string][]byte) { data[stateManifest][len(data[stateManifest])/2] ^= 1 },
		"another root":     func(data map[string][]byte) { data[stateBundleRoot][len(data[stateBundleRoot])/2] ^= 1 },
		"another memory":   func(data map[string][]byte) { data[stateAccepted] = []byte("{") },
	} {
		t.Run(name, func(t *testing.T) {
			var secret corev1.Secret
			require.NoError(t,
				w.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: StateSecret}, &secret))
			before := secret.DeepCopy()
			change(secret.Data)
			require.NoError(t, w.client.Update(t.Context(), &secret))
			p := New(w.puller.Options)
			require.Error(t, p.Restore(t.Context()))
			require.Nil(t, p.Current())
			before.ResourceVersion = secret.ResourceVersion
			require.NoError(t, w.client.Update(t.Context(), before))
		})
	}
}

func (w *world) reported() int64 {
	w.Helper()
	sequence, err := w.puller.Reported(w.Context())
	require.NoError(w, err)
	return sequence
}

func TestStandbyReportDoesNotRevertBundle(t *testing.T) {
	w := newWorld(t)
	w.publish()
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	standby := New(w.puller.Options)
	require.NoError(t, standby.Restore(t.Context()))

	w.publish()
	_, err = w.puller.Pull(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.puller.SaveReported(t.Context(), 9))
	newest := inForce(w.puller)
	last, err := standby.Reported(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 9, last, "it goes on from where the other ended")
	require.NoError(t, standby.SaveReported(t.Context(), 10))
	require.NoError(t, standby.Restore(t.Context()), "once it is its turn")
	require.Equal(t, newest, inForce(standby))
	w.restart()
	require.Equal(t, newest, inForce(w.puller), "the bundle of the other")
	require.EqualValues(t, 10, w.reported())
}

func TestReportSequenceSurvivesRestart(t *testing.T) {
	w := newWorld(t)
	require.Zero(t, w.reported())
	require.NoError(t, w.puller.SaveReported(t.Context(), 7), "before the first bundle")
	w.restart()
	require.EqualValues(t, 7, w.reported())

	w.publish()
	_, err := w.puller.Pull(t.Context())
	require.NoError(t, err)
	w.restart()
	require.EqualValues(t, 7, w.reported(), "a bundle that is accepted later keeps it")
	require.NoError(t, w.puller.SaveReported(t.Context(), 8))
	w.restart()
	require.EqualValues(t, 8, w.reported())
	require.Equal(t, w.made[0].Descriptor.Digest, inForce(w.puller), "and it keeps the bundle")

	var secret corev1.Secret
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: StateSecret}, &secret))
	secret.Data[stateReported] = []byte("seven")
	require.NoError(t, w.client.Update(t.Context(), &secret))
	p := New(w.puller.Options)
	require.ErrorContains(t, p.Restore(t.Context()), "skr-agent-state: report-sequence: ")
	require.Equal(t, w.made[0].Descriptor.Digest, inForce(p), "the bundle stays in force")
}

func TestClusterMirrorsOverrideBundleMirrors(t *testing.T) {
	puller := New(Options{
		Mirrors: map[string]string{"docker.io": "own.example/hub", "ghcr.io/team": "own.example/team"},
	})
	said := bundle.Settings{Mirrors: map[string]string{
		"docker.io": "evil.example", "index.docker.io/library": "evil.example",
		"docker.io/library/nginx": "evil.example",
		"ghcr.io":                 "mirror.example/ghcr", "quay.io": "mirror.example/quay",
	}}
	followed := puller.here(bundle.Bundle{State: bundle.DesiredState{Settings: said}}).State.Settings
	for image, want := range map[string]string{
		"docker.io/library/nginx": "own.example/hub/library/nginx",
		"docker.io/grafana/loki":  "own.example/hub/grafana/loki",
		"ghcr.io/team/app":        "own.example/team/app",
		"ghcr.io/other/app":       "mirror.example/ghcr/other/app",
		"quay.io/app":             "mirror.example/quay/app",
	} {
		require.Equal(t, want, followed.Mirrored(image))
	}
	require.Len(t, said.Mirrors, 5, "the mirrors of the bundle changed")
}
