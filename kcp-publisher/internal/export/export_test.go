package export

import (
	"context"
	"crypto"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // registers the storage driver
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

type fleet struct {
	// later is the offset from noon at which publish issues the next bundles.
	later  time.Duration
	values bundle.Values
	// clockAhead lowers the sequence of the next bundles, as if a clock was ahead before.
	clockAhead int64

	t          *testing.T
	host       string
	registries *store.Registries
	place      store.Store
	keys       publish.Keys
	last       map[string]*bundle.Position
	random     *rand.Rand
}

func newFleet(t *testing.T) *fleet {
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
	f := &fleet{
		t:      t,
		host:   strings.TrimPrefix(server.URL, "http://"),
		last:   map[string]*bundle.Position{},
		random: rand.New(rand.NewPCG(1, 2)),
	}
	var err error
	f.registries, err = store.NewRegistries(store.Access{})
	f.must(err)
	f.place, err = store.Open(f.host+"/fleet", f.registries)
	f.must(err)
	signer, rootKey := f.signer(), f.signer()
	public, err := signer.PublicKey()
	f.must(err)
	data, err := trusttest.NewRoot(rootKey, []crypto.PublicKey{public}, noon.AddDate(1, 0, 0))
	f.must(err)
	root, err := trust.ParseRoot(data)
	f.must(err)
	f.must(store.PushRoot(t.Context(), f.place, root))
	f.keys = publish.Keys{Signer: signer, Root: root}
	return f
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) signer() trust.Signer {
	data, err := trust.GenerateKey()
	f.must(err)
	signer, err := trust.LoadSigner(data)
	f.must(err)
	return signer
}

func (f *fleet) noise(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(f.random.Uint32())
	}
	return data
}

func (f *fleet) push(repository string, blob bundle.Blob) {
	f.t.Helper()
	to, err := f.registries.Repository(f.host + "/" + repository)
	f.must(err)
	f.must(store.PushBlob(f.t.Context(), to, blob))
}

// module pushes a module's content to a different repository than the bundles, and returns the module's manifest.
func (f *fleet) module(name string, sizeBytes int, images ...string) bundle.Manifest {
	f.t.Helper()
	blob := bundle.NewBlob("application/x-tar", f.noise(sizeBytes))
	f.push("modules/"+name, blob)
	return bundle.Manifest{
		Name: name, Module: name, Version: "1.0.0", Spec: v1beta2.ManifestSpec{
			Version: "1.0.0", LocalizedImages: images,
		},
		Content: []bundle.Content{{
			Name: "raw-manifest", Repository: f.host + "/modules/" + name, MediaType: blob.Descriptor.MediaType,
			Digest: blob.Descriptor.Digest, SizeBytes: blob.Descriptor.Size,
		}},
	}
}

func (f *fleet) publish(runtime string, modules ...bundle.Manifest) digest.Digest {
	f.t.Helper()
	return f.publishState(runtime, bundle.DesiredState{CRDs: []string{}, Manifests: modules})
}

func (f *fleet) publishState(runtime string, state bundle.DesiredState) digest.Digest {
	f.t.Helper()
	documents, err := bundle.NewDocuments(state, bundle.Catalog{})
	f.must(err)
	sequence := int64(1)
	if f.last[runtime] != nil {
		sequence = f.last[runtime].Sequence + 1 - f.clockAhead
	}
	manifest, err := bundle.Compose(documents, bundle.Predicate{
		Audience: bundle.Audience{
			Runtime: runtime,
		}, Epoch: f.keys.Root.Epoch, RootVersion: 1, Sequence: sequence, Previous: f.last[runtime],
		Values:   f.values,
		IssuedAt: noon.Add(f.later), ExpiresAt: noon.Add(f.later + time.Hour),
	}, f.keys.Signer)
	f.must(err)
	f.must(storetest.PushBundle(f.t.Context(), f.place, runtime, documents, manifest))
	f.last[runtime] = &bundle.Position{Sequence: sequence, Digest: manifest.Descriptor.Digest}
	return manifest.Descriptor.Digest
}

func (f *fleet) options(runtimes ...string) Options {
	return Options{
		Place:      f.place,
		Registries: f.registries,
		Keys:       f.keys,
		Runtimes:   runtimes,
		Offers:     true,
		Sign:       true,
		Now:        noon,
	}
}

func (f *fleet) gather(options Options) Parcel {
	f.t.Helper()
	parcel, err := Gather(f.t.Context(), options)
	f.must(err)
	return parcel
}

func (f *fleet) written(parcel Parcel) int64 {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), "file.tar")
	_, err := airgap.Write(f.t.Context(), path, parcel.Layout, airgap.Packing{}, func(int64) {})
	f.must(err)
	info, err := os.Stat(path)
	f.must(err)
	return info.Size()
}

func (p Parcel) holds(d digest.Digest) bool {
	return slices.ContainsFunc(p.Layout.Items, func(item airgap.Item) bool { return item.Descriptor.Digest == d })
}

func TestIncrementalExportContainsLittleMoreThanTheChange(t *testing.T) {
	f := newFleet(t)
	var modules []bundle.Manifest
	for i := range 20 {
		modules = append(modules, f.module(fmt.Sprintf("module-%d", i), 50_000))
	}
	first := f.publish("berlin", modules...)
	whole := f.written(f.gather(f.options("berlin")))
	changed := slices.Clone(modules)
	for i := range 2 {
		changed[i] = f.module(modules[i].Name, 50_000)
	}
	f.publish("berlin", changed...)
	options := f.options("berlin")
	options.Since = map[string]digest.Digest{"berlin": first}
	parcel := f.gather(options)

	// The two bundles differ in two blobs, the desired state and the manifest. They share the catalog.
	repository, err := f.place.Reading(t.Context(), bundle.DesiredRepository("berlin"))
	f.must(err)
	newest, err := store.Fetch(t.Context(), repository, bundle.TagDesired)
	f.must(err)
	var manifest ocispec.Manifest
	f.must(json.Unmarshal(newest.Bytes, &manifest))
	blobs := 2*50_000 + manifest.Config.Size + int64(len(newest.Bytes))
	size := f.written(parcel)
	t.Logf("full export %d bytes, change %d, delta %d: %.3f times", whole, blobs, size, float64(size)/float64(blobs))
	if float64(size) > 1.1*float64(blobs) {
		t.Errorf("got an export with %d bytes for %d changed bytes", size, blobs)
	}
	for i, m := range modules {
		if parcel.holds(m.Content[0].Digest) {
			t.Errorf("the export contains the old content of %s", m.Name)
		}
		if got := parcel.holds(changed[i].Content[0].Digest); got != (i < 2) {
			t.Errorf("the export contains the new content of %s: got %v", m.Name, got)
		}
	}
	for _, entry := range parcel.Contents {
		if entry.Kind == KindRoot {
			t.Errorf("the export contains a root that the runtime already has: %+v", entry)
		}
	}
}

func TestRuntimesInOneFileShareTheirBlobs(t *testing.T) {
	f := newFleet(t)
	keda, nats := f.module("keda", 200_000), f.module("nats", 200_000)
	f.publish("berlin", keda, nats)
	f.publish("munich", keda, nats)
	one, both := f.written(f.gather(f.options("berlin"))), f.written(f.gather(f.options("berlin", "munich")))
	if both-one > 10_000 {
		t.Errorf("a second runtime adds %d bytes to a file of %d bytes", both-one, both)
	}
	options := f.options("berlin", "munich")
	options.Since = map[string]digest.Digest{"berlin": f.publish("berlin", keda)}
	f.publish("berlin", keda, nats)
	if parcel := f.gather(options); !parcel.holds(keda.Content[0].Digest) {
		t.Error("the file does not contain content that only munich needs")
	}
	options.Since["munich"] = f.last["munich"].Digest
	if parcel := f.gather(options); parcel.holds(keda.Content[0].Digest) || !parcel.holds(nats.Content[0].Digest) {
		t.Error("the file must contain nats, which only berlin needs, and not keda, which both runtimes have")
	}
}

func TestOfferedModulesAreExported(t *testing.T) {
	f := newFleet(t)
	index, _ := f.image("lab/nats:1", "linux/amd64")
	agent, _ := f.image("lab/agent:1", "linux/amd64")
	proof := bundle.NewBlob("application/json", []byte(`"released"`))
	f.push("modules/nats", proof)
	keda, nats := f.module("keda", 1000), f.module("nats", 1000, f.host+"/lab/nats:1")
	nats.Channel = "regular"
	nats.Release = []bundle.Content{{
		Name: "component", Repository: f.host + "/modules/nats", MediaType: proof.Descriptor.MediaType,
		Digest: proof.Descriptor.Digest, SizeBytes: proof.Descriptor.Size,
	}}
	// A runtime that has applied a bundle does not need the content of its offers, so --since must not leave it out.
	applied := f.publishState("berlin", bundle.DesiredState{
		CRDs: []string{}, Manifests: []bundle.Manifest{keda}, Offers: []bundle.Manifest{nats},
		Settings: bundle.Settings{
			Autonomy: bundle.AutonomyCatalog,
			Agent:    f.host + "/lab/agent@" + agent.Descriptor.Digest.String(),
		},
	})
	for name, c := range map[string]struct{ offers, images, since bool }{
		"offers and images":                  {true, true, false},
		"offers without images":              {true, false, false},
		"images without offers":              {false, true, false},
		"offers and images since the bundle": {true, true, true},
	} {
		options := f.options("berlin")
		options.Offers, options.Images = c.offers, c.images
		if c.since {
			options.Since = map[string]digest.Digest{"berlin": applied}
		}
		parcel := f.gather(options)
		for what, want := range map[digest.Digest]bool{
			keda.Content[0].Digest: !c.since, proof.Descriptor.Digest: !c.since, nats.Content[0].Digest: c.offers,
			index.Descriptor.Digest: c.offers && c.images, agent.Descriptor.Digest: c.images && !c.since,
		} {
			if got := parcel.holds(what); got != want {
				t.Errorf("%s: the file contains %s: %v, want %v", name, what, got, want)
			}
		}
	}
}

func TestExportErrorsNameTheCause(t *testing.T) {
	f := newFleet(t)
	keda := f.module("keda", 10)
	keda.Spec.LocalizedImages = []string{f.host + "/lab/keda:gone"}
	f.publish("berlin", keda)
	for name, c := range map[string]struct {
		options func(*Options)
		want    string
	}{
		"a runtime without a bundle": {
			func(o *Options) { o.Runtimes = []string{"munich"} }, "runtime munich: no bundle is published",
		},
		"a missing bundle": {
			func(o *Options) {
				o.Since = map[string]digest.Digest{"berlin": digest.FromString("x")}
			}, "was not found in the registry: export without --since",
		},
		"a missing image": {
			func(o *Options) { o.Images = true }, "module keda: image " + f.host + "/lab/keda:gone",
		},
		"an expired bundle": {
			func(o *Options) { o.Now = noon.Add(time.Hour) },
			"runtime berlin: the newest bundle expired at 2026-05-04T13:00:00Z",
		},
		"a bundle signed with a different key": {
			func(o *Options) { o.Keys.Root = newFleet(t).keys.Root }, "refused (UnknownKey)",
		},
	} {
		options := f.options("berlin")
		c.options(&options)
		if _, err := Gather(t.Context(), options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// image pushes an image for these platforms, and returns its index and the layer of each platform.
func (f *fleet) image(name string, platforms ...string) (bundle.Blob, map[string]digest.Digest) {
	f.t.Helper()
	repository, tag, _ := strings.Cut(name, ":")
	to, err := f.registries.Repository(f.host + "/" + repository)
	f.must(err)
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	layers := map[string]digest.Digest{}
	push := func(mediaType string, document any, tag string) bundle.Blob {
		data, err := json.Marshal(document)
		f.must(err)
		blob := bundle.NewBlob(mediaType, data)
		if tag == "" {
			f.must(to.Push(f.t.Context(), blob.Descriptor, strings.NewReader(string(data))))
		} else {
			f.must(store.PushManifest(f.t.Context(), to, blob, tag))
		}
		return blob
	}
	for _, platform := range platforms {
		layer, config := bundle.NewBlob(ocispec.MediaTypeImageLayer, f.noise(1000)),
			bundle.NewBlob(ocispec.MediaTypeImageConfig, []byte(`{}`))
		f.push(repository, layer)
		f.push(repository, config)
		manifest := push(ocispec.MediaTypeImageManifest, ocispec.Manifest{
			Versioned: specs.Versioned{
				SchemaVersion: 2,
			}, MediaType: ocispec.MediaTypeImageManifest, Config: config.Descriptor,
			Layers: []ocispec.Descriptor{layer.Descriptor},
		}, "")
		parts := strings.Split(platform, "/")
		manifest.Descriptor.Platform = &ocispec.Platform{OS: parts[0], Architecture: parts[1]}
		index.Manifests = append(index.Manifests, manifest.Descriptor)
		layers[platform] = layer.Descriptor.Digest
	}
	return push(ocispec.MediaTypeImageIndex, index, tag), layers
}
