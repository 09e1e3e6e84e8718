// Package cache stores blobs and manifests by digest on disk, so a restart does not fetch content again.
//
// The cache verifies the digest on every read. It deletes a damaged file and fetches the content again. A full cache
// deletes the least recently used files. A pin records the digest that a name, such as a component version, had when it
// was first read. Pins are never deleted.
//
// Reads do not fail if the disk is full or missing. Several processes can share the folder.
package cache

import (
	_ "crypto/sha256" // registers the hashes of digests
	_ "crypto/sha512"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/singleflight"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

const (
	blobsDir   = "blobs" // content as sha256.<hexadecimal>
	pinsDir    = "pins"
	partialDir = "partial"

	// abandonedAfter is the time without writes after which a partial file is removed.
	abandonedAfter = time.Hour
	// smallBytes is the maximum size of content that the cache verifies in memory. The cache reads larger content from
	// disk twice: to verify the content, and then to return it.
	smallBytes = 4 << 20
	// blobShare limits a stored blob to a quarter of the maximum size, so one image cannot displace all descriptors.
	blobShare = 4
	// scanShare determines how often the cache scans its folder for other processes' files: each time it has written an
	// eighth of the maximum size.
	scanShare = 8
)

// Cache is a folder that stores fetched content. It is safe for concurrent use.
type Cache struct {
	dir      string
	root     *os.Root
	maxBytes int64
	pins     *memo.Memo[string, digest.Digest]
	flights  singleflight.Group // one concurrent fetch per digest
	eviction sync.Mutex         // locked while files are counted and deleted; always locked before mu

	mu      sync.Mutex // guards the fields below
	bytes   int64      // estimated size of all files
	written int64      // bytes since the last scan of the folder
}

// Open opens the cache in dir, which it creates if needed. The cache grows to at most maxBytes. Open returns an error
// if a pin is unreadable, because without the pin, the cache would accept different content for the same name.
func Open(dir string, maxBytes int64) (*Cache, error) {
	if maxBytes <= 0 {
		return nil, fmt.Errorf("cache %s: maximum size of %d bytes: must be greater than 0", dir, maxBytes)
	}
	c := &Cache{dir: dir, maxBytes: maxBytes, pins: memo.NewDigests(maxPinsBytes)}
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("cache %s: %w", dir, err)
	}
	return c, nil
}

func (c *Cache) prepare() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("%w: choose a folder that this process can write to", err)
	}
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return err
	}
	c.root = root
	for _, name := range []string{blobsDir, pinsDir, partialDir} {
		if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return errors.Join(fmt.Errorf("%w: choose a folder that this process can write to", err), root.Close())
		}
	}
	probe, err := c.writeDurable([]byte{})
	if err != nil {
		return errors.Join(fmt.Errorf("%w: choose a folder that this process can write to", err), root.Close())
	}
	if err := errors.Join(root.Remove(probe), c.dropAbandoned(), c.readPins(), c.evict()); err != nil {
		return errors.Join(err, root.Close())
	}
	return nil
}

// Close closes the folder.
func (c *Cache) Close() error { return c.root.Close() }
