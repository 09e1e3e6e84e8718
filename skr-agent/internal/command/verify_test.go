package command

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// fleet publishes bundles for runtime berlin to an OCI layout. Its root of trust lists a release key.
type fleet struct {
	*testing.T
	maker      *trusttest.RootFixture
	release    *rsa.PrivateKey
	root       trust.Root
	at         string // the layout's path as an argument of commands
	trustFile  string
	place      store.Store
	documents  bundle.Documents
	manifest   bundle.Blob
	everything []bundle.Blob // all blobs of the bundle
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{
		T:       t,
		maker:   trusttest.NewRootFixture(t),
		release: trusttest.RSAKey(t),
		at:      store.LayoutScheme + filepath.Join(t.TempDir(), "fleet"),
	}
	draft := trust.DraftRoot("fleet-a", 1, time.Now().AddDate(1, 0, 0))
	f.must(draft.Add(trust.RoleRoot, trusttest.PublicKey(t, f.maker.Keys[0])))
	f.must(draft.Add(trust.RolePublisher, trusttest.PublicKey(t, f.maker.Publisher)))
	f.must(draft.Add(trust.RoleRelease+"makers.example/", &f.release.PublicKey))
	data := f.maker.Signed(draft, f.maker.Keys[0])
	var err error
	f.root, err = trust.ParseRoot(data)
	f.must(err)
	f.trustFile = filepath.Join(t.TempDir(), "root.json")
	f.must(os.WriteFile(f.trustFile, data, 0o600))
	f.place, err = store.Open(f.at, nil)
	f.must(err)
	f.must(store.PushRoot(t.Context(), f.place, f.root))
	return f
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// module returns a module whose release is signed with the given key.
func (f *fleet) module(name string, signer *rsa.PrivateKey) bundle.Manifest {
	f.Helper()
	file := bundle.NewBlob("application/yaml", []byte("kind: ConfigMap # "+name))
	component := "makers.example/" + name
	descriptor := ocm.Descriptor{
		Schema: ocm.SchemaV2, Name: component, Version: "1.0.0", Provider: ocm.Provider{Name: "makers"},
		Resources: []ocm.Resource{{
			Element: ocm.Element{Name: "raw-manifest", Version: "1.0.0"}, Type: "yaml", Relation: "local",
			Access: ocm.Access{Type: "localBlob", LocalReference: file.Descriptor.Digest.String()},
			Digest: &ocm.Digest{
				HashAlgorithm:          "SHA-256",
				NormalisationAlgorithm: "genericBlobDigest/v1",
				Value:                  file.Descriptor.Digest.Encoded(),
			},
		}},
	}
	normal, err := ocm.Normalize(descriptor, ocm.NormalisationV3)
	f.must(err)
	sum := sha256.Sum256(normal)
	value, err := rsa.SignPKCS1v15(rand.Reader, signer, crypto.SHA256, sum[:])
	f.must(err)
	descriptor.Signatures = []ocm.Signature{{
		Name: "release", Algorithm: ocm.AlgorithmPKCS1, MediaType: "application/vnd.ocm.signature.rsa",
		Value: hex.EncodeToString(value),
		Digest: ocm.Digest{
			HashAlgorithm:          "SHA-256",
			NormalisationAlgorithm: ocm.NormalisationV3,
			Value:                  hex.EncodeToString(sum[:]),
		},
	}}
	document, err := descriptor.Document()
	f.must(err)
	source, err := json.Marshal(v1beta2.ImageSpec{Type: v1beta2.OCIRef, Ref: file.Descriptor.Digest.String()})
	f.must(err)
	return bundle.Manifest{
		Name: name, Module: name, Version: "1.0.0", Component: component, Channel: "fast",
		Spec: v1beta2.ManifestSpec{
			Version: "1.0.0", Install: v1beta2.InstallInfo{
				Name: "raw-manifest", Source: runtime.RawExtension{Raw: source},
			},
		},
		Content: []bundle.Content{f.share("raw-manifest", file)},
		Release: []bundle.Content{f.share("descriptor", bundle.NewBlob(trust.MediaTypeDescriptor, document))},
	}
}

// share stores a blob in the fleet's content repository.
func (f *fleet) share(name string, blob bundle.Blob) bundle.Content {
	f.Helper()
	f.must(store.ShareBlob(f.Context(), f.place, blob))
	f.everything = append(f.everything, blob)
	return bundle.Content{
		Name: name, Repository: "./" + bundle.ContentRepository, MediaType: blob.Descriptor.MediaType,
		Digest: blob.Descriptor.Digest, SizeBytes: blob.Descriptor.Size,
	}
}

// publish publishes a bundle that installs one module and lists another as available.
func (f *fleet) publish(issued time.Time, installed, offered bundle.Manifest) {
	f.Helper()
	state := bundle.DesiredState{
		CRDs:      []string{},
		Manifests: []bundle.Manifest{installed},
		Offers:    []bundle.Manifest{offered},
	}
	state.Settings.Autonomy = bundle.AutonomyCatalog
	var err error
	f.documents, err = bundle.NewDocuments(state, bundle.Catalog{})
	f.must(err)
	f.manifest, err = bundle.Compose(f.documents, bundle.Predicate{
		Audience: bundle.Audience{
			Runtime: "berlin",
		}, Epoch: f.root.Epoch, Sequence: 1, RootVersion: 1, IssuedAt: issued, ExpiresAt: issued.Add(72 * time.Hour),
	}, f.maker.Publisher)
	f.must(err)
	f.must(
		storetest.PushBundle(f.Context(), f.place, "berlin", f.documents, f.manifest),
	)
}

// export writes the root of trust, the bundle and its blobs to a file and returns the path.
func (f *fleet) export() string {
	f.Helper()
	roots, err := f.place.Reading(f.Context(), bundle.TrustRepository)
	f.must(err)
	fetched, err := store.Fetch(f.Context(), roots, bundle.RootTag(1))
	f.must(err)
	root := bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes)
	layout := airgap.Layout{
		References: []airgap.Reference{
			{Name: bundle.DesiredRepository("berlin") + ":" + bundle.TagDesired, Descriptor: f.manifest.Descriptor},
			{Name: bundle.TrustRepository + ":" + bundle.RootTag(1), Descriptor: root.Descriptor},
		},
	}
	for _, blob := range append(f.everything, f.documents.State, f.documents.Catalog, f.manifest, root,
		bundle.NewBlob(bundle.MediaTypeRoot, f.root.Raw), bundle.EmptyBlob()) {
		layout.Items = append(layout.Items, airgap.InMemory(blob))
	}
	path := filepath.Join(f.TempDir(), "file.tar")
	_, err = airgap.Write(f.Context(), path, layout, airgap.Packing{}, func(int64) {})
	f.must(err)
	return path
}

func execute(args ...string) (code int, output string) {
	var out bytes.Buffer
	code = Execute("test", args, &out, &out)
	return code, out.String()
}

func TestVerifyAndImportRequireReleaseProof(t *testing.T) {
	f := newFleet(t)
	released, forged := f.module("keda", f.release), f.module("evil", trusttest.RSAKey(t))
	for name, c := range map[string]struct {
		installed, offered bundle.Manifest
		code               int
		output             string
	}{
		"all modules released":          {released, f.module("nats", f.release), cli.ExitDone, ""},
		"offered module not released":   {released, forged, cli.ExitRefused, "NotReleased"},
		"installed module not released": {forged, released, cli.ExitRefused, "NotReleased"},
	} {
		t.Run(name, func(t *testing.T) {
			f.publish(time.Now(), c.installed, c.offered)
			code, output := execute("verify", f.at, "--runtime", "berlin", "--trust", f.trustFile)
			if code != c.code || !strings.Contains(output, c.output) {
				t.Errorf("got exit code %d of verify with %s, want %d with %q", code, output, c.code, c.output)
			}
			to := filepath.Join(t.TempDir(), "target")
			code, output = execute("import", f.export(), "--to", store.LayoutScheme+to, "--trust", f.trustFile)
			if code != c.code || !strings.Contains(output, c.output) {
				t.Errorf("got exit code %d of import with %s, want %d with %q", code, output, c.code, c.output)
			}
			if _, err := os.Stat(to); (err == nil) != (c.code == cli.ExitDone) {
				t.Errorf("got error %v from reading the target, want it to exist only after an import", err)
			}
		})
	}
}

func TestVerifyAppliesClockSkewLikeTheAgent(t *testing.T) {
	f := newFleet(t)
	f.publish(time.Now().Add(48*time.Hour), f.module("keda", f.release), f.module("nats", f.release))
	for skew, want := range map[string]int{"24h": cli.ExitRefused, "49h": cli.ExitDone, "0s": cli.ExitUsage} {
		if code, output := execute("verify", f.at, "--runtime", "berlin", "--trust", f.trustFile, "--clock-skew",
			skew); code != want {
			t.Errorf("--clock-skew %s: got exit code %d with %s, want %d", skew, code, output, want)
		}
	}
}
