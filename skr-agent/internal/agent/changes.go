package agent

import (
	"maps"
	"sync"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

// changeLog collects changes to the agent's own objects since the last reconciliation.
type changeLog struct {
	mu sync.Mutex // guards all fields below
	// definitions is true if one of the agent's CRDs was changed or deleted.
	definitions bool
	// contents contains the stored blobs whose Secrets were changed or deleted.
	contents map[digest.Digest]contentChange
	// secrets contains the names of deleted Secrets that held the agent's state.
	secrets map[string]bool
}

// contentChange describes the change to a stored blob.
type contentChange struct {
	// isLost is true if one of the blob's Secrets was deleted, or if the blob may be damaged.
	isLost bool
	// versions contains changed Secrets' resource versions, by name.
	versions map[string]string
}

// isOwn reports whether only this process changed the blob.
func (c contentChange) isOwn(s *contentstore.Store) bool {
	for name, version := range c.versions {
		if !s.Wrote(name, version) {
			return false
		}
	}
	return !c.isLost
}

func (c *changeLog) recordDefinition() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.definitions = true
}

// recordLost records blobs that may be missing or damaged.
func (c *changeLog) recordLost(blobs []digest.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range blobs {
		c.recordContent(d, contentChange{isLost: true})
	}
}

// recordContent adds a change to a blob. The caller must hold mu.
func (c *changeLog) recordContent(d digest.Digest, change contentChange) {
	if c.contents == nil {
		c.contents = map[digest.Digest]contentChange{}
	}
	known := c.contents[d]
	if known.versions == nil {
		known.versions = map[string]string{}
	}
	known.isLost = known.isLost || change.isLost
	maps.Copy(known.versions, change.versions)
	c.contents[d] = known
}

// recordSecret records a changed or deleted Secret. It returns true if the change must start a reconciliation.
func (c *changeLog) recordSecret(secret *metav1.PartialObjectMetadata, deleted bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := contentstore.BlobDigest(secret.Annotations); d.Validate() == nil {
		change := contentChange{isLost: deleted}
		if !deleted {
			change.versions = map[string]string{secret.Name: secret.ResourceVersion}
		}
		c.recordContent(d, change)
		return true
	}
	if !deleted || secret.Name != pull.StateSecret && secret.Name != objects.MemorySecret {
		return false
	}
	if c.secrets == nil {
		c.secrets = map[string]bool{}
	}
	c.secrets[secret.Name] = true
	return true
}

func (c *changeLog) take() (definitions bool, contents map[digest.Digest]contentChange, secrets map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	definitions, contents, secrets = c.definitions, c.contents, c.secrets
	c.definitions, c.contents, c.secrets = false, nil, nil
	return definitions, contents, secrets
}
