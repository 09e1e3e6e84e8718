package export

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

func TestImagesAreExportedForTheSelectedPlatforms(t *testing.T) {
	const amd, arm = "linux/amd64", "linux/arm64"
	f := newFleet(t)
	index, layers := f.image("lab/keda:1", amd, arm)
	reference := f.host + "/lab/keda:1"
	f.publish("berlin", f.module("keda", 10, reference))
	f.publish("munich", f.module("keda", 10, reference+"@"+index.Descriptor.Digest.String()))
	linux := func(architecture string) []ocispec.Platform {
		return []ocispec.Platform{{OS: "linux", Architecture: architecture}}
	}
	for name, c := range map[string]struct {
		runtime   string
		images    bool
		platforms []ocispec.Platform
		amd, arm  bool
		index     bool // true if the index equals the one in the registry
	}{
		"export without images":       {"berlin", false, nil, false, false, false},
		"image by tag, all platforms": {"berlin", true, nil, true, true, true},
		"image by tag, amd64":         {"berlin", true, linux("amd64"), true, false, false},
		"image by tag, arm64":         {"berlin", true, linux("arm64"), false, true, false},
		"image by digest, amd64":      {"munich", true, linux("amd64"), true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			options := f.options(c.runtime)
			options.Images, options.Platforms = c.images, c.platforms
			parcel := f.gather(options)
			for platform, want := range map[string]bool{amd: c.amd, arm: c.arm} {
				if got := parcel.holds(layers[platform]); got != want {
					t.Errorf("the file contains %s: got %v", platform, got)
				}
			}
			if got := parcel.holds(index.Descriptor.Digest); got != c.index {
				t.Errorf("the file contains the original index: got %v", got)
			}
			lists := 0
			for _, r := range parcel.Layout.References {
				if strings.HasPrefix(r.Name, bundle.CarriedRepository+":") {
					lists++
				}
			}
			if (lists == 1) != c.images {
				t.Errorf("got %d signed lists of images", lists)
			}
		})
	}
	options := f.options("berlin")
	options.Images, options.Platforms = true, linux("s390x")
	if _, err := Gather(t.Context(), options); err == nil ||
		!strings.Contains(err.Error(), `only for ["linux/amd64" "linux/arm64"]`) {
		t.Errorf("a missing platform: got error %v", err)
	}
}

func TestReferencesWithTheSameTagAndDifferentDigestsAreExported(t *testing.T) {
	f := newFleet(t)
	first, _ := f.image("lab/keda:1", "linux/amd64")
	second, _ := f.image("lab/keda:1", "linux/amd64", "linux/arm64")
	reference := f.host + "/lab/keda:1"
	f.publish("berlin", f.module("keda", 10, reference+"@"+first.Descriptor.Digest.String()))
	f.publish("munich", f.module("keda", 10, reference+"@"+second.Descriptor.Digest.String(), reference))
	options := f.options("berlin", "munich")
	options.Images, options.Platforms = true, []ocispec.Platform{{OS: "linux", Architecture: "amd64"}}
	parcel := f.gather(options)
	f.written(parcel)
	for _, index := range []bundle.Blob{first, second} {
		if !parcel.holds(index.Descriptor.Digest) {
			t.Errorf("index %s is missing", index.Descriptor.Digest)
		}
	}
}

// A tag does not identify the image that the runtime pulled, so only images with a digest are left out.
func TestIncrementalExportContainsMovedTags(t *testing.T) {
	const platform = "linux/amd64"
	f := newFleet(t)
	pinned, pinnedLayers := f.image("lab/pinned:1", platform)
	f.image("lab/keda:1", platform)
	gone := f.host + "/lab/gone:1@" + digest.FromString("gone").String()
	references := []string{f.host + "/lab/keda:1", f.host + "/lab/pinned:1@" + pinned.Descriptor.Digest.String()}
	first := f.publish("berlin", f.module("keda", 10, append(references, gone)...))
	f.publish("berlin", f.module("keda", 10, references...))
	moved, layers := f.image("lab/keda:1", platform)
	options := f.options("berlin")
	options.Images, options.Since = true, map[string]digest.Digest{"berlin": first}
	parcel := f.gather(options)
	f.written(parcel)
	for d, want := range map[digest.Digest]bool{
		moved.Descriptor.Digest: true, layers[platform]: true,
		pinned.Descriptor.Digest: false, pinnedLayers[platform]: false,
	} {
		if got := parcel.holds(d); got != want {
			t.Errorf("blob %s: got %v, want %v", d, got, want)
		}
	}
}

// The test exports two runtimes, then one of them, and then both again. The third export must not reuse the first
// list, because an import would refuse that list as older than the second.
func TestExportDoesNotReuseOlderImageList(t *testing.T) {
	f := newFleet(t)
	f.image("lab/keda:1", "linux/amd64")
	f.publish("ship", f.module("keda", 10, f.host+"/lab/keda:1"))
	f.publish("harbor", f.module("mail", 10))
	sequence := func(after time.Duration, runtimes ...string) int64 {
		options := f.options(runtimes...)
		options.Images, options.Now = true, noon.Add(after)
		for _, r := range f.gather(options).Layout.References {
			if !strings.HasPrefix(r.Name, bundle.CarriedRepository+":") {
				continue
			}
			repository, err := f.place.Reading(t.Context(), bundle.CarriedRepository)
			f.must(err)
			fetched, err := store.Fetch(t.Context(), repository, r.Descriptor.Digest.String())
			f.must(err)
			list, err := bundle.VerifyCarried(fetched, f.keys.Root)
			f.must(err)
			return list.Predicate.Sequence
		}
		t.Fatal("the export has no signed list")
		return 0
	}
	both := sequence(time.Minute, "ship", "harbor")
	alone := sequence(2*time.Minute, "ship")
	again := sequence(3*time.Minute, "ship", "harbor")
	repeated := sequence(4*time.Minute, "ship", "harbor")
	if both >= alone || alone >= again || repeated != again {
		t.Errorf("got sequences %d, %d, %d and %d of the lists", both, alone, again, repeated)
	}
	if corrected := sequence(time.Minute, "ship"); corrected <= again {
		t.Errorf("after the clock was set back: got sequence %d, want more than %d", corrected, again)
	}
}

func TestExportReportsModulesThatListNoImages(t *testing.T) {
	f := newFleet(t)
	f.image("lab/keda:1", "linux/amd64")
	f.publish("berlin", f.module("keda", 10, f.host+"/lab/keda:1"), f.module("mail", 10))
	options := f.options("berlin")
	if got := f.gather(options).Unlisted; len(got) != 0 {
		t.Errorf("without --images: got unlisted modules %v", got)
	}
	options.Images = true
	if got := f.gather(options).Unlisted; len(got) != 1 || !strings.HasPrefix(got[0], "mail ") {
		t.Errorf("with --images: got unlisted modules %v", got)
	}
}

func TestRepeatedExportReturnsTheSameFile(t *testing.T) {
	f := newFleet(t)
	f.image("lab/keda:1", "linux/amd64")
	first := f.publish("berlin", f.module("nats", 10))
	f.publish("berlin", f.module("keda", 10, f.host+"/lab/keda:1"))
	options := f.options("berlin")
	options.Images, options.Since = true, map[string]digest.Digest{"berlin": first}
	digests := func() string {
		var all []string
		for _, item := range f.gather(options).Layout.Items {
			all = append(all, item.Descriptor.Digest.String())
		}
		return strings.Join(all, "\n")
	}
	if one, two := digests(), digests(); one != two {
		t.Errorf("got first file\n%s\nsecond file\n%s", one, two)
	}
}

func TestImageThatImportRefusesIsNotExported(t *testing.T) {
	f := newFleet(t)
	index, _ := f.image("lab/keda:1", "linux/amd64")
	to, err := f.registries.Repository(f.host + "/lab/keda")
	f.must(err)
	for depth := 3; depth <= airgap.MaxImageDepth; depth++ { // index, image and layers are three levels
		data, err := json.Marshal(ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
			Manifests: []ocispec.Descriptor{index.Descriptor},
		})
		f.must(err)
		index = bundle.NewBlob(ocispec.MediaTypeImageIndex, data)
		f.must(store.PushManifest(t.Context(), to, index, fmt.Sprint("nested-", depth)))
	}
	f.publish("berlin", f.module("keda", 10, fmt.Sprint(f.host, "/lab/keda:nested-", airgap.MaxImageDepth)))
	options := f.options("berlin")
	options.Images = true
	if _, err := Gather(t.Context(), options); refusal.Of(err) == nil || refusal.Of(err).Reason != refusal.TooLarge {
		t.Errorf("an image with more levels than import accepts: got error %v", err)
	}
}

func TestImageListNamesItsBundlesAndTime(t *testing.T) {
	f := newFleet(t)
	f.image("lab/keda:1", "linux/amd64")
	list := func(options Options) (bundle.Carried, bundle.CarriedPredicate) {
		t.Helper()
		blobs := map[digest.Digest]airgap.Item{}
		parcel := f.gather(options)
		for _, item := range parcel.Layout.Items {
			blobs[item.Descriptor.Digest] = item
		}
		read := func(d digest.Digest) []byte {
			body, err := blobs[d].Open(t.Context())
			f.must(err)
			data, err := io.ReadAll(body)
			f.must(err)
			return data
		}
		for _, r := range parcel.Layout.References {
			if strings.HasPrefix(r.Name, bundle.CarriedRepository+":") {
				verified, err := bundle.VerifyCarried(
					bundle.Fetched(bundle.NewBlob(r.Descriptor.MediaType, read(r.Descriptor.Digest))), f.keys.Root)
				f.must(err)
				found, err := bundle.DecodeCarried(read(verified.List.Digest))
				f.must(err)
				return found, verified.Predicate
			}
		}
		t.Fatal("the list is missing")
		return bundle.Carried{}, bundle.CarriedPredicate{}
	}
	published := f.publish("berlin", f.module("keda", 10, f.host+"/lab/keda:1"))
	options := f.options("berlin")
	options.Images = true
	first, made := list(options)
	if len(first.Bundles) != 1 || first.Bundles[0] != (bundle.CarriedBundle{Runtime: "berlin", Digest: published}) {
		t.Errorf("got a list for bundles %v", first.Bundles)
	}
	if made.Sequence != noon.UnixMilli() || made.Epoch != 1 || !made.IssuedAt.Equal(noon) ||
		!made.ExpiresAt.After(made.IssuedAt) {
		t.Errorf("got predicate %+v", made)
	}
	f.image("lab/keda:1", "linux/arm64") // moves the tag, but does not change the bundle
	options.Now = noon.Add(time.Minute)
	second, later := list(options)
	if second.Images[0].Digest == first.Images[0].Digest || !made.IsBefore(later) {
		t.Errorf("after the tag moved: got images %+v, predicate %+v", second.Images, later)
	}
}
