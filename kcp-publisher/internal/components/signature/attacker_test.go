package signature

import (
	"archive/tar"
	"bytes"
	"crypto/rsa"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/cache"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
)

type replaced struct{ now *memorySource }

func (r replaced) Open(name string) (oras.ReadOnlyTarget, error) { return r.now.Open(name) }
func (r replaced) Repository(name string) string                 { return r.now.Repository(name) }
func (r replaced) String() string                                { return r.now.String() }

func demanding(key *rsa.PrivateKey) *Verifier {
	return NewVerifier(
		Policy{rules: []rule{
			{pattern: regexp.MustCompile(""), required: true, trust: ocm.Trust{Keys: []*rsa.PublicKey{&key.PublicKey}}},
		}}, time.Now)
}

func TestForgedFirstResponseDoesNotBlockGenuineVersion(t *testing.T) {
	key := newKey(t, 2048)
	genuine, forged := signed(t, module("keda"), "release", key), signed(t, module("keda"), "release", newKey(t, 2048))
	kept, err := cache.Open(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	source := offer(t, forged)
	reader := component.NewReader(component.Options{
		Sources: []component.Source{replaced{&source}}, Check: demanding(key).Check, Pins: kept,
	})
	ask := func() error {
		_, err := reader.Component(t.Context(), genuine.Name, genuine.Version)
		return err
	}
	if err := ask(); err == nil {
		t.Fatal("a forged component was accepted")
	}
	source = offer(t, genuine)
	if err := ask(); err != nil {
		t.Errorf("genuine component after a forged one: %v", err)
	}
	source = offer(t, forged)
	if err := ask(); err == nil || !strings.Contains(err.Error(), "changed, but the version did not") {
		t.Errorf("forged component after the genuine one: got %v", err)
	}
}

// polyglot returns an artifact set that is also valid YAML.
func polyglot(t *testing.T, main digest.Digest) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for name, body := range map[string]string{
		"index.json": fmt.Sprintf(`{"manifests":[{"mediaType":%q,"digest":%q,"size":1}]}`,
			ocispec.MediaTypeImageManifest, main),
		"blobs/sha256." + strings.Repeat("0", 64): "\nkind: ClusterRoleBinding\n",
	} {
		if err := writer.WriteHeader(&tar.Header{Name: name, Size: int64(len(body)), Mode: 0o644,
			Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestArtifactDigestCoversOnlyTheArtifact(t *testing.T) {
	key := newKey(t, 2048)
	main := digest.FromString("the artifact that was signed")
	d := module("keda")
	d.Resources[0].Digest = &ocm.Digest{
		HashAlgorithm: "SHA-256", NormalisationAlgorithm: "ociArtifactDigest/v1", Value: main.Encoded(),
	}
	d = signed(t, d, "release", key)
	other := polyglot(t, main)
	d.Resources[0].Access.LocalReference = digest.FromBytes(other).String() // the signature does not cover locations
	reader := component.NewReader(component.Options{Sources: []component.Source{offerContent(t, other, d)}})
	c, err := reader.Component(t.Context(), d.Name, d.Version)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := reader.Bytes(t.Context(), c, c.Descriptor.Resources[0]); err == nil {
		t.Errorf("unsigned bytes %q were returned as signed content", data)
	}
}

func TestSignedImageIsPinnedOrRefused(t *testing.T) {
	key := newKey(t, 2048)
	image := ocm.Resource{
		Element: ocm.Element{Name: "operator", Version: "1.0.0"}, Type: "ociImage", Relation: "external",
		Access: ocm.Access{Type: "ociArtifact", ImageReference: "good.example/operator:1.0.0"},
		Digest: &ocm.Digest{
			HashAlgorithm: "SHA-256", NormalisationAlgorithm: "ociArtifactDigest/v1",
			Value: digest.FromString("operator").Encoded(),
		},
	}
	generic := image
	generic.Digest = &ocm.Digest{
		HashAlgorithm: "SHA-256", NormalisationAlgorithm: "genericBlobDigest/v1", Value: image.Digest.Value,
	}
	nowhere := image
	nowhere.Access = ocm.Access{Type: "localBlob", LocalReference: digest.FromString(content).String()}
	for name, c := range map[string]struct {
		image ocm.Resource
		want  string
	}{
		"image with an image digest": {image, ""},
		"image with a blob digest":   {generic, "its digest was not computed from an image manifest"},
		"image without a location":   {nowhere, "has no location"},
	} {
		d := module("keda")
		d.Resources = append(slices.Clone(d.Resources), c.image)
		d = signed(t, d, "release", key)
		reader := component.NewReader(component.Options{
			Sources: []component.Source{offer(t, d)}, Check: demanding(key).Check,
		})
		_, err := reader.Component(t.Context(), d.Name, d.Version)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
