package signature

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
)

type memorySource struct{ repositories map[string]*memory.Store }

func (s memorySource) Open(name string) (oras.ReadOnlyTarget, error) {
	if s.repositories[name] == nil {
		s.repositories[name] = memory.New()
	}
	return s.repositories[name], nil
}
func (s memorySource) Repository(name string) string { return "registry.example/" + name }
func (s memorySource) String() string                { return "registry.example" }

const content = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// module returns a component with one file to install.
func module(name string) ocm.Descriptor {
	sum := digest.FromString(content)
	return ocm.Descriptor{
		Schema: ocm.SchemaV2, Name: "kyma-pull.dev/module/" + name, Version: "1.0.0",
		Provider: ocm.Provider{Name: "kyma-pull.dev"},
		Resources: []ocm.Resource{{
			Element: ocm.Element{Name: "raw-manifest", Version: "1.0.0"}, Type: "yaml", Relation: "local",
			Access: ocm.Access{Type: "localBlob", LocalReference: sum.String(), MediaType: "application/yaml"},
			Digest: &ocm.Digest{
				HashAlgorithm: "SHA-256", NormalisationAlgorithm: "genericBlobDigest/v1", Value: sum.Encoded(),
			},
		}},
	}
}

func referring(t *testing.T, d, to ocm.Descriptor) ocm.Descriptor {
	t.Helper()
	value, err := ocm.DigestOf(to, ocm.NormalisationV3, "SHA-256")
	if err != nil {
		t.Fatal(err)
	}
	d.References = append(d.References, ocm.Reference{
		Element: ocm.Element{Name: "part", Version: to.Version}, Component: to.Name,
		Digest: &ocm.Digest{HashAlgorithm: "SHA-256", NormalisationAlgorithm: ocm.NormalisationV3, Value: value},
	})
	return d
}

func signed(t *testing.T, d ocm.Descriptor, name string, key *rsa.PrivateKey) ocm.Descriptor {
	t.Helper()
	normal, err := ocm.Normalize(d, ocm.NormalisationV3)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(normal)
	value, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	d.Signatures = append(slices.Clone(d.Signatures), ocm.Signature{
		Name: name, Algorithm: ocm.AlgorithmPKCS1, MediaType: "application/vnd.ocm.signature.rsa",
		Value: hex.EncodeToString(value),
		Digest: ocm.Digest{
			HashAlgorithm: "SHA-256", NormalisationAlgorithm: ocm.NormalisationV3, Value: hex.EncodeToString(sum[:]),
		},
	})
	return d
}

func offer(t *testing.T, components ...ocm.Descriptor) memorySource {
	t.Helper()
	return offerContent(t, []byte(content), components...)
}

func offerContent(t *testing.T, local []byte, components ...ocm.Descriptor) memorySource {
	t.Helper()
	source := memorySource{map[string]*memory.Store{}}
	for _, d := range components {
		document, err := d.Document()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = source.Open(d.Name)
		held := source.repositories[d.Name]
		layer := bundle.NewBlob("application/vnd.ocm.software.component-descriptor.v2+json", document)
		pointer, _ := json.Marshal(map[string]any{"componentDescriptorLayer": layer.Descriptor})
		config := bundle.NewBlob("application/vnd.ocm.software.component.config.v1+json", pointer)
		raw := bundle.NewBlob("application/yaml", local)
		manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":%s,"layers":[%s,%s]}`,
			ocispec.MediaTypeImageManifest, described(config), described(layer), described(raw))
		for _, b := range []bundle.Blob{layer, config, raw} {
			if err := store.PushBlob(t.Context(), held, b); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.PushManifest(t.Context(), held,
			bundle.NewBlob(ocispec.MediaTypeImageManifest, []byte(manifest)), d.Version); err != nil {
			t.Fatal(err)
		}
	}
	return source
}

func described(b bundle.Blob) string {
	data, _ := json.Marshal(b.Descriptor)
	return string(data)
}

func TestUnsignedComponentsAreRefused(t *testing.T) {
	key, attacker := newKey(t, 2048), newKey(t, 2048)
	part := module("part")
	image := func(d *ocm.Digest) ocm.Resource {
		return ocm.Resource{
			Element: ocm.Element{Name: "operator", Version: "1.0.0"}, Type: "ociImage", Relation: "external",
			Access: ocm.Access{Type: "ociArtifact", ImageReference: "r.example/op:1"}, Digest: d,
		}
	}
	with := func(d ocm.Descriptor, r ...ocm.Resource) ocm.Descriptor {
		d.Resources = append(slices.Clone(d.Resources), r...)
		return d
	}
	shipped := module("keda").Resources[0]
	shipped.Name, shipped.Digest = "checks", nil
	without := module("keda")
	without.Resources[0].Digest = nil
	excluded := module("keda")
	excluded.Resources[0].Digest = &ocm.Digest{
		HashAlgorithm: "NO-DIGEST", NormalisationAlgorithm: "EXCLUDE-FROM-SIGNATURE", Value: "NO-DIGEST",
	}
	changedAfter := signed(t, module("keda"), "release", key)
	changedAfter.Resources[0].Type = "directoryTree"
	otherPart := module("part")
	otherPart.Provider.Name = "somebody.else"
	for name, c := range map[string]struct {
		rules      string
		components []ocm.Descriptor // the test checks the first component
		want       string           // part of the error, or empty if accepted
	}{
		"component signed by the release key": {
			"", []ocm.Descriptor{signed(t, module("keda"), "release", key)}, "",
		},
		"one valid and one invalid signature": {
			"", []ocm.Descriptor{signed(t, signed(t, module("keda"), "release", attacker), "release", key)}, "",
		},
		"unsigned component": {
			"", []ocm.Descriptor{module("keda")}, "not signed: the policy's rule for * requires signature release",
		},
		"signature with a different name": {
			"", []ocm.Descriptor{signed(t, module("keda"), "nightly", key)}, "only signed by nightly",
		},
		"signature by an untrusted key": {
			"", []ocm.Descriptor{signed(t, module("keda"), "release", attacker)},
			`signature "release": not made by any of the trusted keys`,
		},
		"descriptor changed after signing": {
			"", []ocm.Descriptor{changedAfter}, "is for another descriptor",
		},
		"content without a digest": {
			"", []ocm.Descriptor{signed(t, without, "release", key)}, `resource "raw-manifest" has no digest`,
		},
		"content excluded from the signature": {
			"", []ocm.Descriptor{signed(t, excluded, "release", key)}, `resource "raw-manifest" has no digest`,
		},
		"checks without a digest": {
			"", []ocm.Descriptor{signed(t, with(module("keda"), shipped), "release", key)},
			`resource "checks" has no digest`,
		},
		"image without a digest": {
			"", []ocm.Descriptor{signed(t, with(module("keda"), image(nil)), "release", key)},
			`resource "operator" has no digest`,
		},
		"referenced component matches its digest": {
			"", []ocm.Descriptor{signed(t, referring(t, module("keda"), part), "release", key), part}, "",
		},
		"referenced component changed": {
			"", []ocm.Descriptor{signed(t, referring(t, module("keda"), part), "release", key), otherPart},
			`reference "part": component kyma-pull.dev/module/part:1.0.0 has digest`,
		},
		"referenced component missing": {
			"", []ocm.Descriptor{signed(t, referring(t, module("keda"), part), "release", key)},
			"component version not found",
		},
		"component without a matching rule": {
			"- {components: other.io/*, required: true}", []ocm.Descriptor{signed(t, module("keda"), "release", key)},
			"no rule of the signature policy matches the component",
		},
		"component that requires no signature": {
			`- {components: "*", required: false}`, []ocm.Descriptor{module("keda")}, "",
		},
		"signature without a configured key": {
			`- {components: "*", required: true, signatures: [nightly]}`,
			[]ocm.Descriptor{signed(t, module("keda"), "nightly", key)}, "no key is configured",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := c.rules
			if rules == "" {
				rules = `- {components: "*", required: true, signatures: [release], keys: [release.pem]}`
			}
			policy, err := decodePolicy([]byte(head+"rules:\n"+rules+"\n"), func(string) ([]byte, error) {
				return publicPEM(t, key), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			verifier := NewVerifier(policy, time.Now)
			reader := component.NewReader(component.Options{
				Sources: []component.Source{offer(t, c.components...)}, Revalidate: time.Hour, RetryAfter: time.Hour,
				Check: verifier.Check,
			})
			_, err = reader.Component(t.Context(), c.components[0].Name, "1.0.0")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestKeysFromSecretsAreAddedAndRemoved(t *testing.T) {
	key := newKey(t, 2048)
	policy, err := decodePolicy([]byte(head+"rules: [{components: '*', required: true, signatures: [release]}]\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	verifier := NewVerifier(policy, time.Now)
	d := signed(t, module("keda"), "release", key)
	reader := component.NewReader(component.Options{
		Sources: []component.Source{offer(t, d)}, Revalidate: time.Hour, RetryAfter: time.Hour, Check: verifier.Check,
	})
	ask := func() error {
		_, err := reader.Component(t.Context(), d.Name, d.Version)
		return err
	}
	if err := ask(); err == nil {
		t.Fatal("accepted without any key")
	}
	secret := func(name string, data map[string][]byte) corev1.Secret {
		return corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "s-" + name,
				Labels: map[string]string{v1beta2.LabelSignature: name}}, Data: data,
		}
	}
	good := map[string][]byte{"key": publicPEM(t, key)}
	bad := maps.Clone(good)
	bad["key"] = []byte("nonsense")
	err = verifier.SetSecrets([]corev1.Secret{secret("broken", bad), secret("release", good), {Data: bad}})
	if err == nil || !strings.Contains(err.Error(), "Secret kcp-system/s-broken data[key]") ||
		strings.Contains(err.Error(), "s-release") {
		t.Errorf("SetSecrets with an invalid key: got error %v, want one with its Secret", err)
	}
	if err := ask(); err == nil {
		t.Error("the cached refusal was dropped before Recheck")
	}
	reader.RequestRecheck()
	if err := ask(); err != nil {
		t.Errorf("with the key from a Secret: %v", err)
	}
	if err := verifier.SetSecrets([]corev1.Secret{secret("nightly", good)}); err != nil {
		t.Fatal(err)
	}
	reader.RequestRecheck()
	if err := ask(); err == nil {
		t.Error("a key for another signature name was accepted")
	}
}

func TestCanceledCheckIsNotCached(t *testing.T) {
	policy, err := decodePolicy([]byte(head+"rules: [{components: '*', required: false}]\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := module("keda")
	reader := component.NewReader(component.Options{
		Sources: []component.Source{offer(t, d)}, Revalidate: time.Hour, RetryAfter: time.Hour,
		Check: NewVerifier(policy, time.Now).Check,
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = reader.Component(ctx, d.Name, d.Version)
	if _, err := reader.Component(t.Context(), d.Name, d.Version); err != nil {
		t.Error(err)
	}
}
