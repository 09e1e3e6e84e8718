package prune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// knownTags maps the repositories for documents and for content to the prefix of their tags.
var knownTags = map[string]string{
	bundle.DocumentsRepository: "set-",
	bundle.ContentRepository:   "blob-",
}

// readShared reads a repository whose manifests all have tags. It omits manifests with unknown formats.
func (r *reader) readShared(ctx context.Context, name string) error {
	repository, err := r.Place.Reading(ctx, name)
	if err != nil {
		return err
	}
	tags, err := store.Tags(ctx, repository)
	if store.IsUnavailable(err) {
		return err
	}
	if err != nil {
		r.addUnknown("repository %s: %v", name, err)
		return nil
	}
	var mu sync.Mutex
	found, foreign := map[digest.Digest]Manifest{}, map[digest.Digest]bool{}
	lists := map[digest.Digest]time.Time{}
	err = forEach(ctx, tags, func(ctx context.Context, tag string) error {
		m, data, err := manifest(ctx, repository, name, tag)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("repository %s: tag %s: %w", name, tag, err)
		}
		mu.Lock()
		defer mu.Unlock()
		d := m.Descriptor.Digest
		expires, understood := r.isKnownFormat(name, tag, m, data)
		if !understood {
			foreign[d] = true
			return nil
		}
		m.Tags = append(found[d].Tags, tag)
		found[d], lists[d] = m, expires
		return nil
	})
	if store.IsUnavailable(err) {
		return err
	}
	if err != nil {
		r.addUnknown("%v", err)
		return nil
	}
	for d, m := range found {
		switch {
		case foreign[d]:
		case name == bundle.CarriedRepository:
			r.inventory.Lists = append(r.inventory.Lists, List{Manifest: m, ExpiresAt: lists[d]})
		default:
			r.inventory.Shared = append(r.inventory.Shared, m)
		}
	}
	return nil
}

// isKnownFormat reports whether the manifest and its tag have a known format. For a list of images, it also returns the
// time at which the list expires.
func (r *reader) isKnownFormat(name, tag string, m Manifest, data []byte) (expires time.Time, ok bool) {
	fetched := bundle.Fetched{Descriptor: m.Descriptor, Bytes: data}
	if name == bundle.CarriedRepository {
		list, err := bundle.VerifyCarried(fetched, r.Root)
		return list.Predicate.ExpiresAt, err == nil &&
			(tag == bundle.CarriedTag(list.List.Digest) || bundle.IsCarriedLastTag(tag))
	}
	if !strings.HasPrefix(tag, knownTags[name]) {
		return time.Time{}, false
	}
	_, refused := bundle.ReadManifest(fetched, bundle.ArtifactTypeContent)
	return time.Time{}, refused == nil && len(m.Blobs) > 0
}

// manifest reads a manifest. If the manifest is too large, it returns only the descriptor, so that the manifest can be
// removed.
func manifest(ctx context.Context, repository store.Reader, name, reference string) (Manifest, []byte, error) {
	fetched, err := store.Fetch(ctx, repository, reference)
	if refusal.Of(err) != nil {
		return Manifest{Repository: name, Descriptor: fetched.Descriptor}, nil, nil
	}
	if err != nil {
		return Manifest{}, nil, err
	}
	d := fetched.Descriptor
	d.Digest, d.Size = digest.FromBytes(fetched.Bytes), int64(len(fetched.Bytes))
	m := Manifest{Repository: name, Descriptor: d}
	var parts ocispec.Manifest
	if err := json.Unmarshal(fetched.Bytes, &parts); err != nil {
		return m, fetched.Bytes, nil //nolint:nilerr // a manifest in an unknown format has no known blobs
	}
	for _, blob := range slices.Concat([]ocispec.Descriptor{parts.Config}, parts.Layers) {
		if blob.Digest != "" && blob.Digest != ocispec.DescriptorEmptyJSON.Digest {
			m.Blobs = append(m.Blobs, blob)
		}
	}
	return m, fetched.Bytes, nil
}
