package airgap

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

func below(t *testing.T, mediaType string, blobs ...bundle.Blob) bundle.Blob {
	t.Helper()
	field := map[bool]string{true: "manifests", false: "layers"}[IsImageIndex(mediaType)]
	descriptors := []ocispec.Descriptor{}
	for _, blob := range blobs {
		descriptors = append(descriptors, blob.Descriptor)
	}
	content := map[string]any{"schemaVersion": 2, "mediaType": mediaType, field: descriptors}
	if field == "layers" {
		content["config"] = bundle.EmptyBlob().Descriptor
	}
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return bundle.NewBlob(mediaType, data)
}

func TestImageWalkVisitsBlobsWithinLimits(t *testing.T) {
	layer := bundle.NewBlob("application/vnd.oci.image.layer.v1.tar", []byte("layer"))
	many := make([]bundle.Blob, MaxImageBlobs)
	for i := range many {
		many[i] = bundle.NewBlob(layer.Descriptor.MediaType, fmt.Append(nil, i))
	}
	docker := below(t, mediaTypeDockerManifest, layer)
	dockerIndex := below(t, mediaTypeDockerIndex, docker)
	nested := below(t, ocispec.MediaTypeImageIndex, dockerIndex)
	tooDeep := below(t, ocispec.MediaTypeImageIndex, nested)
	tooMany := below(t, ocispec.MediaTypeImageManifest, many...)
	large := make([]bundle.Blob, MaxImageManifestsBytes/MaxImageManifestBytes+1)
	for i := range large {
		index := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[],"annotations":{"a":"%d%s"}}`,
			ocispec.MediaTypeImageIndex, i, strings.Repeat("x", MaxImageManifestBytes-200))
		large[i] = bundle.NewBlob(ocispec.MediaTypeImageIndex, index)
	}
	tooLarge := below(t, ocispec.MediaTypeImageIndex, large...)
	repeated := below(t, ocispec.MediaTypeImageIndex, slices.Repeat(large[:1], 100)...)
	repository, err := store.NewMemory().Repository(t.Context(), "image")
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range append(large, docker, dockerIndex, nested, tooDeep, tooMany, tooLarge, repeated) {
		if err := store.PushBlob(t.Context(), repository, blob); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		image bundle.Blob
		found int
		want  refusal.Reason
	}{
		"image in Docker's format":              {docker, 3, ""},
		"index in Docker's format":              {dockerIndex, 4, ""},
		"index of indexes":                      {nested, 5, ""},
		"more levels than the limit":            {tooDeep, 0, refusal.TooLarge},
		"more blobs than the limit":             {tooMany, 0, refusal.TooLarge},
		"manifests larger than the limit":       {tooLarge, 0, refusal.TooLarge},
		"index that is listed 100 times":        {repeated, 2, ""},
		"blob that does not belong to an image": {layer, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			walk := ImageWalk{
				Locate: func(context.Context, ocispec.Descriptor) (content.Fetcher, error) { return repository, nil },
				Found: func(d ocispec.Descriptor, manifest []byte) {
					if found++; (manifest != nil) != isManifest(d.MediaType) {
						t.Errorf("%s: got a manifest of %d bytes, want bytes only for manifests",
							d.MediaType, len(manifest))
					}
				},
			}
			err := walk.Walk(t.Context(), c.image.Descriptor)
			if refused := refusal.Of(err); c.want != "" && (refused == nil || refused.Reason != c.want) ||
				c.want == "" && (err != nil || found != c.found) {
				t.Errorf("got %d blobs and error %v, want %d blobs and refusal %q", found, err, c.found, c.want)
			}
		})
	}
}
