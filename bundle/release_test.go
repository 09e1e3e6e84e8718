package bundle

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func locked(t *testing.T, threshold int, keys ...*rsa.PrivateKey) trust.Root {
	t.Helper()
	m := trusttest.NewRootFixture(t)
	draft := trust.DraftRoot("fleet-a", 1, trusttest.Now.AddDate(1, 0, 0))
	m.Must(draft.Add(trust.RoleRoot, trusttest.PublicKey(t, m.Keys[0])))
	m.Must(draft.Add(trust.RolePublisher, trusttest.PublicKey(t, m.Publisher)))
	for _, key := range keys {
		m.Must(draft.Add(trust.RoleRelease+"makers.example/", &key.PublicKey))
	}
	draft.SetThreshold(trust.RoleRelease+"makers.example/", threshold)
	draft.SetFloor("makers.example/keda", "1.2.0")
	root, err := trust.ParseRoot(m.Signed(draft, m.Keys[0]))
	m.Must(err)
	return root
}

func releasedBy(t *testing.T, d ocm.Descriptor, keys ...*rsa.PrivateKey) []byte {
	t.Helper()
	normal, err := ocm.Normalize(d, ocm.NormalisationV3)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(normal)
	for _, key := range keys {
		value, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		d.Signatures = append(slices.Clone(d.Signatures), ocm.Signature{
			Name: "release", Algorithm: ocm.AlgorithmPKCS1, MediaType: "application/vnd.ocm.signature.rsa",
			Value: hex.EncodeToString(value),
			Digest: ocm.Digest{
				HashAlgorithm: "SHA-256", NormalisationAlgorithm: ocm.NormalisationV3,
				Value: hex.EncodeToString(sum[:]),
			},
		})
	}
	document, err := d.Document()
	if err != nil {
		t.Fatal(err)
	}
	return document
}

type release struct {
	file, layer, manifest, defaultCR Blob
	main, part                       ocm.Descriptor
	documents                        map[digest.Digest][]byte
}

func newRelease(t *testing.T, version string, keys ...*rsa.PrivateKey) release {
	t.Helper()
	r := release{
		file:  NewBlob("application/yaml", []byte("kind: ConfigMap")),
		layer: NewBlob("application/x-tar", []byte("layer")),
		defaultCR: NewBlob("application/yaml", []byte(
			`{"apiVersion": "operator.kyma-project.io/v1alpha1", "kind": "Keda", "metadata": {"name": "default"}}`)),
	}
	data, err := json.Marshal(ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, Layers: []ocispec.Descriptor{r.layer.Descriptor},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.manifest = NewBlob(ocispec.MediaTypeImageManifest, data)
	image := func(name string) ocm.Resource {
		return ocm.Resource{
			Element: ocm.Element{Name: name, Version: version}, Type: "ociImage", Relation: "external",
			Access: ocm.Access{Type: "ociArtifact", ImageReference: "good.example/" + name + ":" + version},
			Digest: &ocm.Digest{
				HashAlgorithm: "SHA-256", NormalisationAlgorithm: "ociArtifactDigest/v1",
				Value: digest.FromString(name + version).Encoded(),
			},
		}
	}
	r.part = ocm.Descriptor{
		Schema: ocm.SchemaV2, Name: "makers.example/part", Version: version, Provider: ocm.Provider{Name: "makers"},
		Resources: []ocm.Resource{image("proxy")},
	}
	value, err := ocm.DigestOf(r.part, ocm.NormalisationV3, "SHA-256")
	if err != nil {
		t.Fatal(err)
	}
	local := func(name, normalisation string, blob Blob) ocm.Resource {
		return ocm.Resource{
			Element: ocm.Element{Name: name, Version: version}, Type: "yaml", Relation: "local",
			Access: ocm.Access{Type: "localBlob", LocalReference: blob.Descriptor.Digest.String()},
			Digest: &ocm.Digest{
				HashAlgorithm: "SHA-256", NormalisationAlgorithm: normalisation,
				Value: blob.Descriptor.Digest.Encoded(),
			},
		}
	}
	r.main = ocm.Descriptor{
		Schema: ocm.SchemaV2, Name: "makers.example/keda", Version: version, Provider: ocm.Provider{Name: "makers"},
		Resources: []ocm.Resource{
			local("raw-manifest", "genericBlobDigest/v1", r.file), local("chart", "ociArtifactDigest/v1", r.manifest),
			local(ContentDefaultCR, "genericBlobDigest/v1", r.defaultCR), image("operator"),
		},
		References: []ocm.Reference{
			{
				Element: ocm.Element{Name: "part", Version: version}, Component: r.part.Name,
				Digest: &ocm.Digest{
					HashAlgorithm: "SHA-256", NormalisationAlgorithm: ocm.NormalisationV3, Value: value,
				},
			},
		},
	}
	r.documents = map[digest.Digest][]byte{r.manifest.Descriptor.Digest: r.manifest.Bytes}
	r.prove(releasedBy(t, r.main, keys...), releasedBy(t, r.part))
	return r
}

func (r release) prove(documents ...[]byte) {
	for _, d := range documents {
		r.documents[digest.FromBytes(d)] = d
	}
}

func named(name string, blob Blob) trust.ReleasedContent {
	return trust.ReleasedContent{Name: name, Digest: blob.Descriptor.Digest}
}

func imageOf(name, version, of string) string {
	return "mirror.example/" + name + ":" + version + "@" + digest.FromString(of).String()
}

func TestOnlyReleasedContentIsInstalled(t *testing.T) {
	key, second, attacker := trusttest.RSAKey(t), trusttest.RSAKey(t), trusttest.RSAKey(t)
	root := locked(t, 1, key, second)
	good := newRelease(t, "1.2.0", key)
	all := trust.Released{
		Component: "makers.example/keda", Version: "1.2.0", Contents: []trust.ReleasedContent{
			named("raw-manifest", good.file), named("chart", good.layer),
		},
		Images: []string{imageOf("operator", "1.2.0", "operator1.2.0"), imageOf("proxy", "1.2.0", "proxy1.2.0")},
	}
	with := func(change func(*trust.Released)) trust.Released {
		r := all
		r.Contents, r.Images = slices.Clone(r.Contents), slices.Clone(r.Images)
		change(&r)
		return r
	}
	evil := NewBlob("application/yaml", []byte("kind: ClusterRoleBinding"))
	changed := newRelease(t, "1.2.0", key)
	changed.main.Resources[0].Digest.Value = evil.Descriptor.Digest.Encoded()
	resigned := newRelease(t, "1.2.0")
	resigned.main = changed.main
	resigned.documents = map[digest.Digest][]byte{}
	resigned.prove(releasedBy(t, changed.main, attacker), releasedBy(t, changed.part))
	swapped := newRelease(t, "1.2.0", key)
	other := swapped.part
	other.Resources = slices.Clone(other.Resources)
	other.Resources[0].Digest = &ocm.Digest{
		HashAlgorithm: "SHA-256", NormalisationAlgorithm: "ociArtifactDigest/v1",
		Value: digest.FromString("evil").Encoded(),
	}
	swapped.documents = map[digest.Digest][]byte{}
	swapped.prove(releasedBy(t, swapped.main, key), releasedBy(t, other))
	for name, c := range map[string]struct {
		root      trust.Root
		released  trust.Released
		documents map[digest.Digest][]byte
		want      string
	}{
		"released content only": {root, all, good.documents, ""},
		"two signatures required, two present": {
			locked(t, 2, key, second), all, newRelease(t, "1.2.0", key, second).documents, "",
		},
		"two signatures required, one present": {
			locked(t, 2, key, second), all, good.documents, "is signed by 1 of the release keys",
		},
		"two signatures required, two by one key": {
			locked(t, 2, key, second), all, newRelease(t, "1.2.0", key, key).documents,
			"is signed by 1 of the release keys",
		},
		"descriptor signed by an unknown key": {
			root, all, newRelease(t, "1.2.0", attacker).documents, "is signed by 0",
		},
		"descriptor without a signature": {root, all, newRelease(t, "1.2.0").documents, "is signed by 0"},
		"changed descriptor, signed by an attacker": {
			root, with(func(r *trust.Released) { r.Contents[0] = named("raw-manifest", evil) }), resigned.documents,
			"is signed by 0",
		},
		"release proof is missing":             {root, all, nil, "release proof does not contain its descriptor"},
		"release proof has too many documents": {root, all, many(), "at most 250"},
		"release proof is not a descriptor": {
			root, all, map[digest.Digest][]byte{"sha256:00": []byte("garbage")}, "document sha256:00",
		},
		"file that was not released": {
			root, with(func(r *trust.Released) { r.Contents[0] = named("raw-manifest", evil) }), good.documents,
			"is not part of the release",
		},
		"released file under the name of another resource": {
			root, with(func(r *trust.Released) { r.Contents[0] = named("chart", good.file) }), good.documents,
			"is not part of the release",
		},
		"layer that was not released": {
			root, with(func(r *trust.Released) { r.Contents[1] = named("chart", evil) }), good.documents,
			"is not part of the release",
		},
		"image that was not released": {
			root, with(func(r *trust.Released) { r.Images[0] = imageOf("operator", "1.2.0", "evil") }), good.documents,
			"is not part of the release",
		},
		"released image under the name of another image": {
			root, with(func(r *trust.Released) { r.Images[0] = imageOf("operator", "1.2.0", "proxy1.2.0") }),
			good.documents, "is not part of the release",
		},
		"image without a digest": {
			root, with(func(r *trust.Released) { r.Images[0] = "evil.example/operator:1.2.0" }), good.documents,
			"is not part of the release",
		},
		"component that is not referenced": {root, all, swapped.documents, "does not match the released digest"},
		"version below the minimum": {
			root, with(func(r *trust.Released) { r.Version = "1.1.9" }), newRelease(t, "1.1.9", key).documents,
			"is older than 1.2.0",
		},
		"invalid version": {
			root, with(func(r *trust.Released) { r.Version = "latest" }), good.documents, "is older than 1.2.0",
		},
		"component without release keys": {
			root, with(func(r *trust.Released) { r.Component = "else.example/keda" }), good.documents,
			"no release key covers this component name",
		},
		"release proof of another version": {
			root, with(func(r *trust.Released) { r.Version = "1.3.0" }), good.documents,
			"release proof does not contain its descriptor",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.root.CheckRelease(c.released, c.documents, trusttest.Now)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func many() map[digest.Digest][]byte {
	documents := map[digest.Digest][]byte{}
	for i := range trust.MaxReleaseDocuments + 1 {
		documents[digest.FromBytes([]byte{byte(i), byte(i >> 8)})] = []byte("{}")
	}
	return documents
}

func decode(data []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	return object, json.Unmarshal(data, &object.Object)
}

func TestReleaseKeysForbidUnreleasedContentInBundleFields(t *testing.T) {
	key := trusttest.RSAKey(t)
	root := locked(t, 1, key)
	r := newRelease(t, "1.2.0", key)
	source, err := json.Marshal(v1beta2.ImageSpec{
		Name: "raw-manifest", Type: v1beta2.OCIRef, Ref: r.file.Descriptor.Digest.String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	object := func(apiVersion, kind string) *unstructured.Unstructured {
		return &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "default"},
			},
		}
	}
	state := func(change func(*Manifest, *DesiredState)) DesiredState {
		m := Manifest{
			Name: "keda", Module: "keda", Version: "1.2.0", Component: "makers.example/keda",
			Content: []Content{
				{Name: "raw-manifest", Digest: r.file.Descriptor.Digest, SizeBytes: r.file.Descriptor.Size},
				{Name: ContentDefaultCR, Digest: r.defaultCR.Descriptor.Digest, SizeBytes: r.defaultCR.Descriptor.Size},
			},
		}
		m.Spec.Install.Source = runtime.RawExtension{Raw: source}
		m.Spec.Resource = object("operator.kyma-project.io/v1alpha1", "Keda")
		for d := range r.documents {
			m.Release = append(m.Release, Content{Digest: d})
		}
		s := DesiredState{}
		change(&m, &s)
		s.Manifests = append(s.Manifests, m)
		return s
	}
	for name, c := range map[string]struct {
		change func(*Manifest, *DesiredState)
		want   string
	}{
		"released module": {func(*Manifest, *DesiredState) {}, ""},
		"module without a release proof": {
			func(m *Manifest, _ *DesiredState) { m.Release = nil }, "release proof does not contain its descriptor",
		},
		"module to remove without a release proof": {func(_ *Manifest, s *DesiredState) {
			s.Leaving = []Manifest{{Module: "x", Component: "else.example/x", Version: "1"}}
		}, "no release key covers"},
		"settings with a mirror": {func(_ *Manifest, s *DesiredState) {
			s.Settings.Mirrors = map[string]string{"good.example": "evil.example"}
		}, "settings.mirrors"},
		"settings with an agent image": {func(_ *Manifest, s *DesiredState) {
			s.Settings.Agent = "evil.example/agent@sha256:" + strings.Repeat("a", 64)
		}, "settings.agent"},
		"annotation that replaces images": {
			func(m *Manifest, _ *DesiredState) {
				m.Annotations = map[string]string{v1beta2.AnnotationImages: "{}"}
			}, "can only be set by the agent",
		},
		"source that is not part of the content": {
			func(m *Manifest, _ *DesiredState) {
				m.Spec.Install.Source.Raw = []byte(`{"ref":"sha256:00"}`)
			}, `spec.install.source is not the component's resource "raw-manifest" with type oci-ref`,
		},
		"source with the type of a chart": {
			func(m *Manifest, _ *DesiredState) {
				m.Spec.Install.Source.Raw = bytes.Replace(m.Spec.Install.Source.Raw, []byte("oci-ref"), []byte("helm-chart"), 1)
			}, `spec.install.source is not the component's resource "raw-manifest" with type oci-ref`,
		},
		"source that is released content for another purpose": {
			func(m *Manifest, _ *DesiredState) {
				m.Spec.Install.Source.Raw = []byte(`{"type":"oci-ref","ref":"` + r.defaultCR.Descriptor.Digest.String() + `"}`)
			}, `spec.install.source is not the component's resource "raw-manifest" with type oci-ref`,
		},
		"chart values that are not part of the content": {
			func(m *Manifest, _ *DesiredState) {
				m.Spec.Config = &v1beta2.ImageSpec{Ref: "sha256:00"}
			}, "spec.config: the component does not contain values",
		},
		"module without a default CR": {func(m *Manifest, _ *DesiredState) {
			m.Spec.Resource, m.Content = nil, m.Content[:1]
		}, ""},
		"default CR that differs from the released one": {func(m *Manifest, _ *DesiredState) {
			m.Spec.Resource.Object["spec"] = map[string]any{"image": "evil.example/run"}
		}, "differs from the one in the release"},
		"Secret as default CR": {func(m *Manifest, _ *DesiredState) {
			m.Spec.Resource = object("v1", "Secret")
		}, "differs from the one in the release"},
		"default CR without a released default CR": {func(m *Manifest, _ *DesiredState) {
			m.Content = m.Content[:1]
		}, "the release has no default CR"},
		"default CR that was not released": {func(m *Manifest, _ *DesiredState) {
			m.Content[1].Digest = digest.FromString("evil")
		}, "is not part of the release"},
		"default CR in released content with another name": {func(m *Manifest, _ *DesiredState) {
			m.Content[1] = Content{Name: ContentDefaultCR, Digest: r.file.Descriptor.Digest}
		}, "is not part of the release"},
		"released component under the name of another module": {func(m *Manifest, _ *DesiredState) {
			m.Name, m.Module = "networking", "networking"
		}, "cannot be module networking"},
		"released component under a suffix of its module name": {func(m *Manifest, _ *DesiredState) {
			m.Name, m.Module = "eda", "eda"
		}, "cannot be module eda"},
		"released component under its full name": {func(m *Manifest, _ *DesiredState) {
			m.Module = "makers.example/keda"
		}, "cannot be module makers.example/keda"},
	} {
		t.Run(name, func(t *testing.T) {
			documents := maps.Clone(r.documents)
			documents[r.defaultCR.Descriptor.Digest] = r.defaultCR.Bytes
			err := CheckReleases(root, state(c.change), documents, decode, trusttest.Now)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	open := trusttest.RootFor(t, trusttest.NewSigner(t))
	if err := CheckReleases(open, state(func(m *Manifest, _ *DesiredState) { m.Release = nil }), nil,
		decode, trusttest.Now); err != nil {
		t.Errorf("without release keys: got error %v, want no error", err)
	}
}

func TestChartIsInstalledWithItsReleasedValues(t *testing.T) {
	chart, values := digest.FromString("chart"), digest.FromString("values")
	descriptor := ocm.Descriptor{Name: "makers.example/keda", Version: "1.2.0", Resources: []ocm.Resource{
		{Element: ocm.Element{Name: "chart", Version: "1.2.0"}, Type: "helmChart"},
		{Element: ocm.Element{Name: "config", Version: "1.2.0"}, Type: "helmValues"},
	}}
	for name, c := range map[string]struct {
		config *v1beta2.ImageSpec
		want   string
	}{
		"released values":           {&v1beta2.ImageSpec{Ref: values.String()}, ""},
		"no values":                 {nil, `spec.config is not the component's resource "config"`},
		"the chart as values":       {&v1beta2.ImageSpec{Ref: chart.String()}, `spec.config is not the component's resource`},
		"content of unknown origin": {&v1beta2.ImageSpec{Ref: "sha256:00"}, `spec.config is not the component's resource`},
	} {
		t.Run(name, func(t *testing.T) {
			m := Manifest{
				Module: "keda", Component: descriptor.Name,
				Content: []Content{{Name: "chart", Digest: chart}, {Name: "config", Digest: values}},
			}
			m.Spec.Config = c.config
			m.Spec.Install.Source.Raw = []byte(`{"type": "helm-chart", "ref": "` + chart.String() + `"}`)
			err := m.checkLocked(descriptor, nil)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestManifestWithoutProofsCannotProveItsRelease(t *testing.T) {
	good := Manifest{Module: "keda", Component: "makers.example/keda", Release: []Content{{Name: "release"}}}
	if !good.CanProveRelease() {
		t.Error("a released manifest is refused")
	}
	for name, change := range map[string]func(*Manifest){
		"no release proof":           func(m *Manifest) { m.Release = nil },
		"another module's component": func(m *Manifest) { m.Module = "team/keda" },
		"no released default CR":     func(m *Manifest) { m.Spec.Resource = &unstructured.Unstructured{} },
	} {
		m := good
		if change(&m); m.CanProveRelease() {
			t.Errorf("%s: got a manifest that can prove its release", name)
		}
	}
}
