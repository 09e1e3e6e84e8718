package prune

import (
	"context"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// In this test, another program has attached a signature to a bundle in a registry without the referrers API.
func TestManifestsWithUnknownTagsAreKept(t *testing.T) {
	logrus.SetOutput(io.Discard)
	server := httptest.NewServer(handlers.NewApp(context.WithoutCancel(t.Context()), inMemory()))
	t.Cleanup(server.Close)
	registries, err := store.NewRegistries(store.Access{})
	if err != nil {
		t.Fatal(err)
	}
	place, err := store.Open(strings.TrimPrefix(server.URL, "http://")+"/fleet", registries)
	if err != nil {
		t.Fatal(err)
	}
	repository, err := place.Repository(t.Context(), bundle.DesiredRepository("berlin"))
	if err != nil {
		t.Fatal(err)
	}
	signed := digest.FromString("bundle")
	index := bundle.NewBlob(ocispec.MediaTypeImageIndex,
		[]byte(`{"schemaVersion":2,"mediaType":"`+ocispec.MediaTypeImageIndex+`","manifests":[]}`))
	for _, tag := range []string{bundle.TagDesired, strings.Replace(signed.String(), ":", "-", 1)} {
		if err := store.PushManifest(t.Context(), repository, index, tag); err != nil {
			t.Fatal(err)
		}
	}
	runtime := Runtime{ID: "berlin"}
	if err := readNamed(t.Context(), repository, &runtime); err != nil {
		t.Fatal(err)
	}
	if want := []digest.Digest{index.Descriptor.Digest, signed}; !slices.Equal(runtime.Named, want) {
		t.Errorf("got %v, want %v", runtime.Named, want)
	}
}
