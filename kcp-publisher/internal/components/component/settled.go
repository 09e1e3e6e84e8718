package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

// settledContent is the cached location that runtimes read a resource's content from. The cache is necessary because
// thousands of runtimes request the same content.
type settledContent struct {
	mu sync.Mutex // locked while the content is located, so that concurrent callers locate it once
	state
	// memoryBytes is the size of the state when it was last stored in the cache.
	memoryBytes int
}

type state struct {
	content Content
	// isShared is true if the content was copied to the runtimes' registry.
	isShared bool
	err      error
	at       time.Time
	// copied is the last time at which the component version was known to be complete in the runtimes' registry, or
	// zero.
	copied time.Time
}

// settleContent returns the content with the location that runtimes read it from. If necessary, it first copies the
// content to the runtimes' registry.
func (r *Reader) settleContent(
	ctx context.Context, c Component, resource ocm.Resource, place store.Store,
) (Content, error) {
	key := c.settledKey(resource, place)
	s := findOrAdd(r, r.settled, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	there := true
	if s.isShared {
		var err error
		if there, err = hasContent(ctx, place, s.content); err != nil {
			return Content{}, err
		}
	}
	age := r.now().Sub(s.at)
	if s.at.IsZero() || !there || s.err == nil && age >= r.Revalidate || s.err != nil && age >= r.RetryAfter {
		if err := r.findOrCopy(ctx, s, there, c, resource, place); err != nil {
			return Content{}, err
		}
		s.memoryBytes = memo.MemoryOf(s.content) + errorBytes(s.err)
		r.settled.Put(key, s)
	}
	if s.err != nil {
		return Content{}, s.err
	}
	if s.isShared && !there {
		r.onRestored(ctx, s.content, place)
	}
	content := s.content
	var err error
	if content.Repository == "" {
		content.Repository, err = r.copy(ctx, s, c, place)
	}
	return content, err
}

// copy copies the component version to the runtimes' registry if it is missing there. It checks an existing copy's
// blobs again only after Options.Revalidate.
func (r *Reader) copy(ctx context.Context, s *settledContent, c Component, place store.Store) (string, error) {
	name, known := place.Name(descriptorsPath+c.Descriptor.Name), !s.copied.IsZero()
	there := false
	if known {
		var err error
		if there, err = c.isCopied(ctx, place); err != nil || there && r.now().Sub(s.copied) < r.Revalidate {
			return name, err
		}
	}
	completed, err := c.copyTo(ctx, place)
	if err != nil {
		return name, err
	}
	s.copied = r.now()
	if known && !there || completed {
		r.onRestored(ctx, s.content, place)
	}
	return name, nil
}

func (r *Reader) onRestored(ctx context.Context, content Content, place store.Store) {
	if r.Restored != nil {
		r.Restored(ctx, fmt.Sprintf("content %s in %s", content.Digest, place))
	}
}

// findOrCopy locates a resource's content. If no repository contains the content as a single blob, findOrCopy copies it
// to the runtimes' registry. It caches errors from reading the content.
func (r *Reader) findOrCopy(
	ctx context.Context, s *settledContent, there bool, c Component, resource ocm.Resource, place store.Store,
) error {
	known := s.content.Digest != "" && s.err == nil && there
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := r.locateContent(bounded, c, resource, place)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil && known && !errors.Is(err, errChanged) && !errors.Is(err, store.ErrNotFound):
		// Keep the cached location while the content's registry is unavailable.
		s.at = r.now()
		return nil
	case err != nil:
		s.state = state{err: err, at: r.now()}
		return nil
	case found.bytes != nil:
		if err := store.ShareBlob(ctx, place,
			bundle.Blob{Descriptor: found.Descriptor(), Bytes: found.bytes}); err != nil {
			return err
		}
		found.Repository = place.Name(bundle.ContentRepository)
	}
	s.state = state{content: found.Content, isShared: found.bytes != nil, at: r.now(), copied: s.copied}
	return nil
}

func (c Component) settledKey(resource ocm.Resource, place store.Store) string {
	key := c.tagName(resource) + " " + c.id.String() + " " + c.Repository
	if place != nil {
		key += " " + place.String()
	}
	return key
}

// hasContent reports whether the runtimes' content repository has the content.
func hasContent(ctx context.Context, place store.Store, content Content) (bool, error) {
	shared, err := place.Repository(ctx, bundle.ContentRepository)
	if err != nil {
		return false, err
	}
	there, err := shared.Exists(ctx, content.Descriptor())
	if err != nil {
		return false,
			fmt.Errorf("look up blob %s in %s: %w", content.Digest, place.Name(bundle.ContentRepository), err)
	}
	return there, nil
}

// tagName returns the name of the pin for the digest of a resource's reference.
func (c Component) tagName(resource ocm.Resource) string {
	data, _ := json.Marshal(struct { // strings always encode
		Name, Version string
		ExtraIdentity map[string]string
		Access        ocm.Access
		Digest        *ocm.Digest
	}{resource.Name, resource.Version, resource.ExtraIdentity, resource.Access, resource.Digest})
	return fmt.Sprintf("%s:%s %s", c.Descriptor.Name, c.Descriptor.Version, digest.FromBytes(data))
}

// firstDigest returns the digest that a resource's reference had when it was first read. It returns false if the
// reference was never read.
func (r *Reader) firstDigest(c Component, resource ocm.Resource) (digest.Digest, bool) {
	name := c.tagName(resource)
	d, ok := r.firstDigests.Get(name)
	if !ok && r.Pins != nil {
		return r.Pins.Pinned(name)
	}
	return d, ok
}

// recordDigest records the digest of a resource's reference. It returns an error if a different digest was recorded
// before, because a component version's content must not change.
func (r *Reader) recordDigest(c Component, resource ocm.Resource, reference string, d digest.Digest) error {
	if first, ok := r.firstDigest(c, resource); ok && first != d {
		return fmt.Errorf("access: %s %w: was %s, is %s: release a new version instead", reference, errChanged, first,
			d)
	}
	name := c.tagName(resource)
	if r.Pins != nil {
		if err := r.Pins.Pin(name, d); err != nil {
			return fmt.Errorf("store the digest of %s: %w", reference, err)
		}
	}
	r.firstDigests.Put(name, d)
	return nil
}
