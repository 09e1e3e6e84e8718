package importer

import (
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // registers the storage driver
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// newRegistry returns a folder in a new registry. The registry refuses manifests whose blobs do not exist.
func newRegistry(t *testing.T) store.Store {
	t.Helper()
	logrus.SetOutput(io.Discard)
	config := &configuration.Configuration{Storage: configuration.Storage{
		"inmemory": configuration.Parameters{}, "maintenance": configuration.Parameters{
			"uploadpurging": map[any]any{"enabled": false},
		},
	}}
	config.Log.Level, config.Log.AccessLog.Disabled, config.HTTP.Secret = "panic", true, "loopback"
	server := httptest.NewServer(handlers.NewApp(context.WithoutCancel(t.Context()), config))
	t.Cleanup(server.Close)
	registries, err := store.NewRegistries(store.Access{})
	must(t, err)
	place, err := store.Open(strings.TrimPrefix(server.URL, "http://")+"/fleet", registries)
	must(t, err)
	return place
}

// sharedImage returns an image with nested indexes. Its manifests share a layer, and both indexes list one manifest.
func sharedImage(t *testing.T) (bundle.CarriedImage, []airgap.Item) {
	t.Helper()
	layer := bundle.NewBlob(ocispec.MediaTypeImageLayer, []byte("shared"))
	items := []airgap.Item{airgap.InMemory(layer)}
	var manifests []ocispec.Descriptor
	for _, platform := range []string{"amd64", "arm64"} {
		config := bundle.NewBlob(ocispec.MediaTypeImageConfig, []byte(`{"architecture":"`+platform+`"}`))
		manifest, err := bundle.NewManifest(ocispec.Manifest{
			Config: config.Descriptor, Layers: []ocispec.Descriptor{layer.Descriptor},
		})
		must(t, err)
		items = append(items, airgap.InMemory(config), airgap.InMemory(manifest))
		manifests = append(manifests, manifest.Descriptor)
	}
	index := func(manifests ...ocispec.Descriptor) ocispec.Descriptor {
		data, err := json.Marshal(ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: manifests,
		})
		must(t, err)
		blob := bundle.NewBlob(ocispec.MediaTypeImageIndex, data)
		items = append(items, airgap.InMemory(blob))
		return blob.Descriptor
	}
	d := index(manifests[0], index(manifests...))
	return bundle.CarriedImage{
		Reference: "docker.io/library/nginx:1", Name: "images/docker.io/library/nginx:1", MediaType: d.MediaType,
		Digest: d.Digest, SizeBytes: d.Size,
	}, items
}

func TestImageWithSharedBlobsIsImportedIntoARegistry(t *testing.T) {
	s := newSender(t)
	i := s.importer(t.TempDir())
	i.Target = newRegistry(t)
	image, items := sharedImage(t)
	_, err := i.Import(t.Context(),
		[]string{s.packed(s.withImageBlobs(s.layout(1, false, "keda"), 1, image, items, nil))})
	must(t, err)
	if got := imageAt(t, i); got != image.Digest.String() {
		t.Errorf("got image %s, want %s", got, image.Digest)
	}
	if got := sequenceAt(t, i); got != 1 {
		t.Errorf("got bundle %d at the target, want 1", got)
	}
}
