package prune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

const (
	recordTag       = "unused"
	recordType      = "application/vnd.kyma-pull.pruning.v1"
	recordMediaType = "application/vnd.kyma-pull.pruning.v1+json"
)

// unusedRecord contains the time when each manifest was first found unused, by Manifest.Key.
type unusedRecord struct {
	Version int                  `json:"version"`
	Unused  map[string]time.Time `json:"unused"`
}

// ReadNotes returns the time when each manifest was first found unused. The result is empty before the first run.
func ReadNotes(ctx context.Context, place store.Store) (map[string]time.Time, error) {
	repository, err := place.Reading(ctx, bundle.PruningRepository)
	if err != nil {
		return nil, err
	}
	fetched, err := store.Fetch(ctx, repository, recordTag)
	if errors.Is(err, store.ErrNotFound) {
		return map[string]time.Time{}, nil
	}
	var n unusedRecord
	if err == nil {
		n, err = readRecord(ctx, repository, fetched)
	}
	if err != nil {
		return nil,
			fmt.Errorf("record of unused manifests %s:%s: %w: delete the record to reset the age of all unused manifests",
				place.Name(bundle.PruningRepository), recordTag, err)
	}
	return n.Unused, nil
}

func readRecord(ctx context.Context, repository store.Reader, fetched bundle.Fetched) (unusedRecord, error) {
	manifest, refused := bundle.ReadManifest(fetched, recordType)
	if refused != nil {
		return unusedRecord{}, refused
	}
	if len(manifest.Layers) != 1 {
		return unusedRecord{}, fmt.Errorf("the manifest has %d layers, must have 1", len(manifest.Layers))
	}
	data, err := store.FetchBlob(ctx, repository, manifest.Layers[0], bundle.MaxDocumentBytes)
	if err != nil {
		return unusedRecord{}, err
	}
	var n unusedRecord
	if err := json.Unmarshal(data, &n); err != nil {
		return unusedRecord{}, err
	}
	if n.Version != 1 {
		return unusedRecord{}, fmt.Errorf("version is %d, must be 1", n.Version)
	}
	return n, nil
}

// encodeRecord returns the oldest entries that fit into limit bytes, and the number of omitted entries.
func encodeRecord(unused map[string]time.Time, limit int) (data []byte, left int, err error) {
	keys := slices.SortedFunc(maps.Keys(unused), func(a, b string) int {
		return cmp.Or(unused[a].Compare(unused[b]), strings.Compare(a, b))
	})
	n := unusedRecord{Version: 1, Unused: map[string]time.Time{}}
	size := len(`{"version":1,"unused":{}}`)
	for i, key := range keys {
		entry, err := json.Marshal(map[string]time.Time{key: unused[key]})
		if err != nil {
			return nil, 0, err
		}
		size += len(entry) - len("{}") + len(",")
		if size > limit {
			left = len(keys) - i
			break
		}
		n.Unused[key] = unused[key]
	}
	data, err = json.Marshal(n)
	return data, left, err
}

// WriteNotes replaces the list of unused manifests. It omits the newest entries beyond the size limit and returns their
// number.
func WriteNotes(ctx context.Context, place store.Store, unused map[string]time.Time) (left int, err error) {
	data, left, err := encodeRecord(unused, bundle.MaxDocumentBytes)
	if err != nil {
		return 0, err
	}
	return left, writeRecord(ctx, place, data)
}

func writeRecord(ctx context.Context, place store.Store, data []byte) error {
	repository, err := place.Repository(ctx, bundle.PruningRepository)
	if err != nil {
		return err
	}
	layer := bundle.NewBlob(recordMediaType, data)
	manifest, err := bundle.NewManifest(ocispec.Manifest{
		ArtifactType: recordType, Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer.Descriptor},
	})
	if err != nil {
		return err
	}
	before, err := repository.Resolve(ctx, recordTag)
	if err = store.NotFound(err); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, blob := range []bundle.Blob{bundle.EmptyBlob(), layer} {
		if err := store.PushBlob(ctx, repository, blob); err != nil {
			return err
		}
	}
	if err := store.PushManifest(ctx, repository, manifest, recordTag); err != nil {
		return err
	}
	if before.Digest == "" || before.Digest == manifest.Descriptor.Digest {
		return nil
	}
	return store.Remove(ctx, repository, before)
}

const maxRefused = 20

// Remove removes a plan's manifests in order. The result removed has one value for each element of plan.Remove: true if
// the manifest was removed. Remove stops after maxRefused errors, or if the registry is unavailable.
func Remove(ctx context.Context, place store.Store, plan Plan) (removed []bool, err error) {
	removed = make([]bool, len(plan.Remove))
	var refused []error
	for i, r := range plan.Remove {
		repository, err := place.Repository(ctx, r.Repository)
		if err == nil {
			err = store.Remove(ctx, repository, r.Descriptor)
		}
		if err == nil {
			removed[i] = true
			continue
		}
		refused = append(refused, fmt.Errorf("remove %s: %w", r.Key(), err))
		if ctx.Err() != nil || store.IsUnavailable(err) || len(refused) == maxRefused {
			break
		}
	}
	return removed, errors.Join(refused...)
}
