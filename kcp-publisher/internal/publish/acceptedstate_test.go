package publish

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// rootWithReleaseKey returns a root of trust with one release key for example.com.
func rootWithReleaseKey(t *testing.T, key *rsa.PrivateKey) trust.Root {
	t.Helper()
	m := trusttest.NewRootFixture(t)
	root, err := trust.ParseRoot(m.After(m.First(), func(d *trust.RootDraft) {
		m.Must(d.Add(trust.RoleRelease+"example.com/", &key.PublicKey))
	}, m.Keys...))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// signedDescriptor returns the descriptor of a component with one resource, signed with a key.
func signedDescriptor(t *testing.T, content bundle.Blob, key *rsa.PrivateKey) []byte {
	t.Helper()
	d := ocm.Descriptor{
		Schema: ocm.SchemaV2, Name: "example.com/scaler", Version: "1.0.0", Provider: ocm.Provider{Name: "example"},
		Resources: []ocm.Resource{{
			Element: ocm.Element{Name: "raw-manifest", Version: "1.0.0"}, Type: "yaml", Relation: "local",
			Access: ocm.Access{Type: "localBlob", LocalReference: content.Descriptor.Digest.String()},
			Digest: &ocm.Digest{
				HashAlgorithm: "SHA-256", NormalisationAlgorithm: "genericBlobDigest/v1",
				Value: content.Descriptor.Digest.Encoded(),
			},
		}},
	}
	normal, err := ocm.Normalize(d, ocm.NormalisationV3)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(normal)
	value, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	d.Signatures = []ocm.Signature{{
		Name: "release", Algorithm: ocm.AlgorithmPKCS1, MediaType: "application/vnd.ocm.signature.rsa",
		Value: hex.EncodeToString(value),
		Digest: ocm.Digest{
			HashAlgorithm: "SHA-256", NormalisationAlgorithm: ocm.NormalisationV3, Value: hex.EncodeToString(sum[:]),
		},
	}}
	document, err := d.Document()
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// Agents refuse a whole bundle if a revoked release key proves one of its modules.
func TestModuleOfARevokedReleaseKeyIsOmitted(t *testing.T) {
	former, current := trusttest.RSAKey(t), trusttest.RSAKey(t)
	content := bundle.NewBlob("application/yaml", []byte("kind: ConfigMap"))
	proof := bundle.NewBlob(trust.MediaTypeDescriptor, signedDescriptor(t, content, former))
	source, err := json.Marshal(v1beta2.ImageSpec{
		Name: "raw-manifest", Type: v1beta2.OCIRef, Ref: content.Descriptor.Digest.String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	m := bundle.Manifest{
		Name: "scaler", Module: "scaler", Version: "1.0.0", Component: "example.com/scaler",
		Content: []bundle.Content{{
			Name: "raw-manifest", Digest: content.Descriptor.Digest, SizeBytes: content.Descriptor.Size,
		}},
		Release: []bundle.Content{{
			Name: "release", MediaType: proof.Descriptor.MediaType, Digest: proof.Descriptor.Digest,
			SizeBytes: proof.Descriptor.Size,
		}},
	}
	m.Spec.Install.Source = runtime.RawExtension{Raw: source}
	last := bundle.DesiredState{Manifests: []bundle.Manifest{m}}
	p := newFleet(t).started()
	kept := func(root trust.Root) int { return len(p.acceptedState(t.Context(), root, last).Manifests) }
	renewal := func(root trust.Root, change func(*bundle.DesiredState)) error {
		state := last
		change(&state)
		return p.checkRenewal(t.Context(), root, state)
	}
	asIs := func(*bundle.DesiredState) {}
	before, after := rootWithReleaseKey(t, former), rootWithReleaseKey(t, current)
	if n := kept(after); n != 1 {
		t.Errorf("unreadable proof: got %d Manifests, want 1", n)
	}
	if err := store.ShareBlob(t.Context(), p.Place, proof); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call uses the cached results
		if n := kept(before); n != 1 {
			t.Errorf("current release key: got %d Manifests, want 1", n)
		}
		if n := kept(after); n != 0 {
			t.Errorf("revoked release key: got %d Manifests, want none", n)
		}
	}
	if err := renewal(before, asIs); err != nil {
		t.Errorf("renewal with the current release key: %v", err)
	}
	for name, c := range map[string]struct {
		root   trust.Root
		change func(*bundle.DesiredState)
	}{
		"revoked release key":      {after, asIs},
		"offer with a revoked key": {after, func(s *bundle.DesiredState) { s.Manifests, s.Offers = nil, s.Manifests }},
		"leaving, revoked key":     {after, func(s *bundle.DesiredState) { s.Manifests, s.Leaving = nil, s.Manifests }},
		"mirrors with release keys": {before, func(s *bundle.DesiredState) {
			s.Settings.Mirrors = map[string]string{"a.example.org": "b.example.org"}
		}},
	} {
		if renewal(c.root, c.change) == nil {
			t.Errorf("%s: the bundle is renewed", name)
		}
	}
}

// During a Git hold, the publisher renews bundles without resolving them again.
func TestBundleWithAModuleBelowItsFloorIsNotRenewed(t *testing.T) {
	f := newFleet(t)
	p, runtime := f.started(), plan.Runtime{ID: "runtime-1"}
	published := f.publish(p, runtime, "regular").Published
	runtime.RecordedBundle = &plan.RecordedBundle{Sequence: published.Predicate.Sequence, Digest: published.Digest}
	record := f.record(p, runtime.ID)
	record.lastBundle.State.Manifests = []bundle.Manifest{{
		Name: "scaler", Module: "scaler", Version: "1.0.0", Component: "example.com/scaler",
	}}
	f.now = f.now.Add(validity / 2)
	keys := *p.keys.Load()
	keys.Root.Floors = map[string]string{"example.com/scaler": "1.1.0"}
	p.keys.Store(&keys)
	if _, pushed, err := p.Renew(t.Context(), record, runtime); pushed || !errors.Is(err, ErrWouldBeRefused) ||
		!strings.Contains(err.Error(), "module scaler: component example.com/scaler:1.0.0 is older than 1.1.0") {
		t.Errorf("got pushed %v and error %v, want an error about the minimum version", pushed, err)
	}
	keys.Root.Floors = nil
	if _, pushed, err := p.Renew(t.Context(), record, runtime); !pushed || err != nil {
		t.Errorf("without the minimum version: got pushed %v and error %v", pushed, err)
	}
}

func TestAgentImageBelowItsFloorIsNotPublished(t *testing.T) {
	f := newFleet(t)
	f.root.Floors = map[string]string{bundle.AgentComponent: "1.2.0"}
	p := f.started()
	snapshot, err := catalog.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := "@sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]string{
		"r.example/a:1.2.0" + sum: "", "r.example/a:1.1.0" + sum: "minimum version", "r.example/a" + sum: "minimum version",
	} {
		in := Input{Runtime: runtimeNamed("one"), Catalog: snapshot}
		in.Request.Settings.Agent = image
		_, err := p.Publish(t.Context(), &Record{}, in)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("image %s: got error %v, want %q", image, err, want)
		}
	}
}
