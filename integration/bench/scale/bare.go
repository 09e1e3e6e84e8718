package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// mountsPerBundle returns the number of blob mounts that the measured promotion needed for each bundle. Without a
// measured promotion, it returns 1.
func (w *world) mountsPerBundle() int64 { return max(1, w.mounts) }

type bareBundle struct {
	id        string
	documents bundle.Documents
	manifest  bundle.Blob
}

// bareLoop writes the newest bundle of every runtime to another repository, without a publisher. For each bundle, it
// sends as many mounts as the measured promotion, and then a new manifest.
func (w *world) bareLoop(ctx context.Context) (time.Duration, cpuTimes, error) {
	bundles, err := w.fetchBundles(ctx)
	if err != nil {
		return 0, cpuTimes{}, fmt.Errorf("read the bundles for the bare loop: %w", err)
	}
	// The measured promotion wrote to existing repositories, so create the repositories before this measurement.
	_, err = forEach(ctx, bundles, func(ctx context.Context, b bareBundle) error {
		before, err := holder(b.documents.Catalog)
		if err != nil {
			return err
		}
		documents := bundle.Documents{State: b.documents.Catalog, Catalog: b.documents.Catalog}
		return storetest.PushBundle(ctx, w.place, b.id, documents, before)
	})
	if err != nil {
		return 0, cpuTimes{}, fmt.Errorf("prepare the bare loop: %w", err)
	}
	spent := w.taken()
	took, err := forEach(ctx, bundles, func(ctx context.Context, b bareBundle) error {
		present := func(d digest.Digest) bool {
			return w.mountsPerBundle() == 1 && d == b.documents.Catalog.Descriptor.Digest
		}
		if err := store.PlaceDocuments(ctx, w.place, b.id, b.documents, present); err != nil {
			return err
		}
		return store.PushBundleManifest(ctx, w.place, b.id, b.manifest)
	})
	return took, w.taken().since(spent), err
}

func (w *world) fetchBundles(ctx context.Context) ([]bareBundle, error) {
	bundles := make([]bareBundle, w.Runtimes)
	var mu sync.Mutex // guards known
	known := map[digest.Digest]bundle.Blob{}
	numbers := make([]int, w.Runtimes)
	for i := range numbers {
		numbers[i] = i
	}
	_, err := forEach(ctx, numbers, func(ctx context.Context, i int) error {
		repository, err := w.place.Reading(ctx, bundle.DesiredRepository(runtimeID(i)))
		if err != nil {
			return err
		}
		fetched, err := store.Fetch(ctx, repository, bundle.TagDesired)
		if err != nil {
			return err
		}
		var m ocispec.Manifest
		if err := json.Unmarshal(fetched.Bytes, &m); err != nil {
			return err
		}
		var blobs []bundle.Blob
		for _, of := range []ocispec.Descriptor{m.Config, m.Layers[0]} {
			mu.Lock()
			blob, there := known[of.Digest]
			mu.Unlock()
			if !there {
				data, err := store.FetchBlob(ctx, repository, of, bundle.MaxDocumentBytes)
				if err != nil {
					return err
				}
				blob = bundle.Blob{Descriptor: of, Bytes: data}
				mu.Lock()
				known[of.Digest] = blob
				mu.Unlock()
			}
			blobs = append(blobs, blob)
		}
		// The registry does not store a manifest again if it already exists in another repository, so change the
		// manifest.
		manifest := bundle.NewBlob(ocispec.MediaTypeImageManifest, append(fetched.Bytes, '\n'))
		bundles[i] = bareBundle{"bare-" + runtimeID(i), bundle.Documents{State: blobs[0], Catalog: blobs[1]}, manifest}
		return nil
	})
	return bundles, err
}

// holder returns a manifest that references the blob, so that the registry keeps it.
func holder(blob bundle.Blob) (bundle.Blob, error) {
	return bundle.NewManifest(ocispec.Manifest{Config: blob.Descriptor, Layers: []ocispec.Descriptor{blob.Descriptor}})
}

// maxPatchedKymas limits the number of Kymas that writeStatuses writes. More Kymas would not change the measured rate.
const maxPatchedKymas = 1000

// statusWrite writes the status of the Kyma to. The Kyma from is the stored object, with the current resource version.
// After the write, to has the new resource version.
type statusWrite func(ctx context.Context, from, to *v1beta2.Kyma) error

// patchStatus sends a merge patch, as most controllers do. The API server returns the whole Kyma.
func (w *world) patchStatus(ctx context.Context, from, to *v1beta2.Kyma) error {
	patched := to.DeepCopy() // Patch overwrites its argument with the response
	patched.ObjectMeta = *from.ObjectMeta.DeepCopy()
	err := w.control.Status().Patch(ctx, patched, client.MergeFrom(from), client.FieldOwner("kcp-publisher"))
	to.ResourceVersion = patched.ResourceVersion
	return err
}

// replaceStatus replaces the status as the publisher does. The API server returns only the metadata.
func (w *world) replaceStatus(ctx context.Context, from, to *v1beta2.Kyma) error {
	data, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": from.ResourceVersion},
		{"op": "add", "path": "/status", "value": to.Status},
	})
	if err != nil {
		return err
	}
	stored := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Kyma"},
		ObjectMeta: metav1.ObjectMeta{Namespace: to.Namespace, Name: to.Name},
	}
	err = w.control.Status().Patch(ctx, stored, client.RawPatch(types.JSONPatchType, data),
		client.FieldOwner("kcp-publisher"))
	to.ResourceVersion = stored.ResourceVersion
	return err
}

// writeStatuses changes the statuses of Kymas as the publisher does for a report, and then reverts the changes.
func (w *world) writeStatuses(ctx context.Context, write statusWrite) (rate float64, writes int, err error) {
	var all v1beta2.KymaList
	if err := w.control.List(ctx, &all, client.InNamespace(sample.Namespace),
		client.Limit(int64(min(maxPatchedKymas, w.Runtimes)))); err != nil {
		return 0, 0, err
	}
	took, err := forEach(ctx, all.Items, func(ctx context.Context, was v1beta2.Kyma) error {
		is := was.DeepCopy()
		if o := is.Status.Runtime.Observed; o != nil {
			o.Sequence, o.Time = o.Sequence+1, metav1.Now().Rfc3339Copy()
		}
		for i := range is.Status.Modules {
			if m := &is.Status.Modules[i]; m.Name == promotedModule {
				m.Version = promotedVersion(promotions)
			}
		}
		if err := write(ctx, &was, is); err != nil {
			return err
		}
		return write(ctx, is, was.DeepCopy())
	})
	if err != nil {
		return 0, 0, fmt.Errorf("write statuses: %w", err)
	}
	writes = 2 * len(all.Items)
	return float64(writes) / took.Seconds(), writes, nil
}
