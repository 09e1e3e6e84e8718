package agent

import (
	"sync"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
)

// changeLog contains the changes of the agent's own objects since the last reconciliation.
type changeLog struct {
	mu sync.Mutex // guards all fields below
	// definitions is true if one of the agent's CRDs was changed or deleted.
	definitions bool
	// contents contains the digests of stored blobs whose Secrets were changed or deleted. The value is true if a
	// Secret was deleted.
	contents map[digest.Digest]bool
	// secrets contains the names of deleted Secrets that held the agent's state.
	secrets map[string]bool
}

func (c *changeLog) recordDefinition() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.definitions = true
}

func (c *changeLog) recordContents(touched []digest.Digest, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.contents == nil {
		c.contents = map[digest.Digest]bool{}
	}
	for _, d := range touched {
		c.contents[d] = c.contents[d] || deleted
	}
}

// recordSecret records a changed Secret. It returns true if the change must start a reconciliation.
func (c *changeLog) recordSecret(secret *metav1.PartialObjectMetadata, deleted bool) bool {
	if d := contentstore.BlobDigest(secret.Annotations); d.Validate() == nil {
		c.recordContents([]digest.Digest{d}, deleted)
		return true
	}
	if !deleted || secret.Name != pull.StateSecret && secret.Name != objects.MemorySecret {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secrets == nil {
		c.secrets = map[string]bool{}
	}
	c.secrets[secret.Name] = true
	return true
}

func (c *changeLog) take() (definitions bool, contents map[digest.Digest]bool, secrets map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	definitions, contents, secrets = c.definitions, c.contents, c.secrets
	c.definitions, c.contents, c.secrets = false, nil, nil
	return definitions, contents, secrets
}
