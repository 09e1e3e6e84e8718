package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/content"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const (
	runtimes = 1000
	writers  = 16 // equals the publisher's default concurrency
)

// measurePublishing measures a promotion to a fleet with a real API server and registry. It compares the duration
// with a loop that writes the same bytes to the same registry without a publisher.
func measurePublishing(ctx context.Context) ([]result, error) {
	f, err := fleet.Start(ctx, fleet.Options{
		Durable: true, Measured: true, PublisherFlags: []string{"--set", "report-poll-interval=10m"},
	})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Offer(ctx, sample.Scaler("1.7.0"), sample.Scaler("1.8.0")); err != nil {
		return nil, err
	}
	component := sample.Scaler("").Component()
	if err := f.Release(ctx, "scaler", component, sample.Channel("regular", "1.7.0")); err != nil {
		return nil, err
	}
	for i := range runtimes {
		if err := f.Control.Create(ctx, fleet.NewKyma(id(i), "regular", "scaler")); err != nil {
			return nil, err
		}
	}
	if err := untilRecorded(ctx, f, "1.7.0"); err != nil {
		return nil, err
	}
	put := registry.Request{Method: http.MethodPut, Class: registry.Manifests}
	before := f.Registry.Traffic()[put]
	started := time.Now()
	if err := f.Release(ctx, "scaler", component, sample.Channel("regular", "1.8.0")); err != nil {
		return nil, err
	}
	// The publisher pushes one manifest for each runtime, and one for the content that they share.
	err = fleet.Until(ctx, 5*time.Minute, "every bundle is pushed", func() (bool, string) {
		n := f.Registry.Traffic()[put] - before
		return n > runtimes, fmt.Sprint(n)
	})
	if err != nil {
		return nil, err
	}
	whole := time.Since(started)
	if err := untilRecorded(ctx, f, "1.8.0"); err != nil {
		return nil, err
	}
	recorded := time.Since(started)
	f.Publisher().Stop()
	bare, err := bareLoop(ctx, f)
	if err != nil {
		return nil, err
	}
	return []result{
		{
			fmt.Sprintf("promotion to %d runtimes, from the edit in the API to the last bundle", runtimes),
			whole.Round(10 * time.Millisecond).String(), "",
		},
		{"until every Kyma's status contains it", recorded.Round(10 * time.Millisecond).String(), ""},
		{"the same bytes by a bare loop", bare.Round(10 * time.Millisecond).String(), ""},
		{"ratio", fmt.Sprintf("%.2f", whole.Seconds()/bare.Seconds()), "at most 1.25"},
	}, nil
}

func id(i int) string { return fmt.Sprintf("runtime-%04d", i) }

// untilRecorded waits until every Kyma's status contains a bundle with this version. It polls slowly, because each read
// of the Kymas affects the measurement.
func untilRecorded(ctx context.Context, f *fleet.Fleet, version string) error {
	next := time.Now()
	recorded := 0
	return fleet.Until(ctx, 5*time.Minute, fmt.Sprintf("%d Kymas name a bundle with version %s", runtimes, version),
		func() (bool, string) {
			if time.Now().Before(next) {
				return false, fmt.Sprint(recorded)
			}
			next = time.Now().Add(time.Second)
			var kymas v1beta2.KymaList
			if err := f.Control.List(ctx, &kymas); err != nil {
				return false, err.Error()
			}
			recorded = 0
			for _, k := range kymas.Items {
				if r := k.Status.Runtime; r != nil && r.Published != nil && r.Published.Versions["scaler"] == version {
					recorded++
				}
			}
			return recorded == runtimes, fmt.Sprint(recorded)
		})
}

// bareLoop writes the newest bundle of every runtime to another repository, without a publisher. For each bundle, it
// mounts the blob with the desired state and pushes the manifest.
func bareLoop(ctx context.Context, f *fleet.Fleet) (time.Duration, error) {
	type write struct {
		state    bundle.Blob
		catalog  bundle.Blob
		manifest bundle.Blob
	}
	writes := make([]write, runtimes)
	for i := range writes {
		repository, err := f.Place.Repository(ctx, bundle.DesiredRepository(id(i)))
		if err != nil {
			return 0, err
		}
		fetched, err := store.Fetch(ctx, repository, bundle.TagDesired)
		if err != nil {
			return 0, err
		}
		var m ocispec.Manifest
		if err := json.Unmarshal(fetched.Bytes, &m); err != nil {
			return 0, err
		}
		state, err := content.FetchAll(ctx, repository, m.Config)
		if err != nil {
			return 0, err
		}
		catalog, err := content.FetchAll(ctx, repository, m.Layers[0])
		if err != nil {
			return 0, err
		}
		writes[i] = write{
			bundle.Blob{Descriptor: m.Config, Bytes: state}, bundle.Blob{Descriptor: m.Layers[0], Bytes: catalog},
			bundle.NewBlob(ocispec.MediaTypeImageManifest, fetched.Bytes),
		}
	}
	// Push the catalog before the measurement. In a real promotion, the registry already contains the catalog from the
	// previous bundle.
	for i, w := range writes {
		documents := bundle.Documents{State: w.catalog, Catalog: w.catalog}
		if err := storetest.PushBundle(ctx, f.Place, "bare-"+id(i), documents, bareManifest(w.catalog)); err != nil {
			return 0, err
		}
	}
	started := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i, w := range writes {
		group.Go(func() error {
			present := func(d digest.Digest) bool { return d == w.catalog.Descriptor.Digest }
			documents := bundle.Documents{State: w.state, Catalog: w.catalog}
			if err := store.PlaceDocuments(ctx, f.Place, "bare-"+id(i), documents, present); err != nil {
				return err
			}
			return store.PushBundleManifest(ctx, f.Place, "bare-"+id(i), w.manifest)
		})
	}
	err := group.Wait()
	return time.Since(started), err
}

// bareManifest returns a manifest that references the blob, so that the registry keeps it.
func bareManifest(blob bundle.Blob) bundle.Blob {
	data, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest, "config": blob.Descriptor,
		"layers": []ocispec.Descriptor{blob.Descriptor},
	})
	if err != nil {
		panic(err) // marshaling plain data cannot fail
	}
	return bundle.NewBlob(ocispec.MediaTypeImageManifest, data)
}
