// Package cache stores blobs and manifests by digest on disk, so a restart does not fetch content again.
//
// It wraps an OCI repository and serves repeated reads from disk. Every read is checked against its digest: before the
// first byte, or at the end of a stream that is too large for the cache. A damaged file is deleted and fetched again.
// If the cache is full, the least recently used files are deleted. Pins record the digest of a name at its first read
// and are never deleted.
//
// The cache never resolves a tag, and uses only validated digests as file names. A full or missing disk never fails a
// read: the cache passes the read through and counts it in Stats.
//
// Several processes can share the folder. Files appear by rename, and their modification time is the time of their last
// use, so the folder is the only shared state.
package cache

import (
	_ "crypto/sha256" // registers the hash of digests
	_ "crypto/sha512"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/singleflight"
)

const (
	blobsDir   = "blobs"   // fetched content, as sha256.<hexadecimal>
	pinsDir    = "pins"    // digests that Pin recorded
	partialDir = "partial" // incomplete files

	// abandonedAfter is the age from which a partial file is considered abandoned. Every write updates the modification
	// time, and no request takes longer than a few minutes.
	abandonedAfter = time.Hour
	// smallBytes is the largest size of content that is checked in memory. Manifests, configs, descriptors and the
	// content of most modules are smaller. Larger content is read twice: for the check and for the caller.
	smallBytes = 4 << 20
	// blobShare limits a stored blob to a quarter of the maximum size, so one image cannot displace all descriptors.
	blobShare = 4
	// scanShare: the cache scans its folder again after it has written 1/8 of the maximum size. A scan finds the files
	// of other processes.
	scanShare = 8
)

// Cache is a folder that stores fetched content. It is safe for concurrent use.
type Cache struct {
	dir      string
	root     *os.Root
	maxBytes int64
	flights  singleflight.Group // one concurrent fetch per digest
	eviction sync.Mutex         // held while files are counted and deleted; locked before mu

	mu      sync.Mutex // guards the fields below
	stats   Stats
	written int64 // bytes since the last scan of the folder
	pins    map[string]digest.Digest
}

// Stats are the counters of a cache. They start at zero with the process.
type Stats struct {
	Hits   int64 // reads served from disk, or by a concurrent read
	Misses int64 // reads from the source
	// Damaged counts files that were deleted and fetched again. More than a few indicate a failing disk, or another
	// program that writes to the folder.
	Damaged int64
	Evicted int64 // files deleted because the cache was full
	// Unstored counts reads that could not be stored because the disk was full or not writable. Failure is the last
	// error.
	Unstored int64
	Failure  string
	Bytes    int64 // size of the files at the last scan of the folder, plus the bytes written since
}

// Open opens the cache in dir, creates dir if needed, and removes abandoned partial files. The cache can grow to
// maxBytes, and does not store blobs larger than a quarter of that.
//
// Open returns an error for a pin that cannot be read, because without the pin, the cache would trust the registry's
// current content.
func Open(dir string, maxBytes int64) (*Cache, error) {
	if maxBytes <= 0 {
		return nil, fmt.Errorf("cache %s: maximum size of %d bytes: must be greater than 0", dir, maxBytes)
	}
	c := &Cache{dir: dir, maxBytes: maxBytes, pins: map[string]digest.Digest{}}
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
	probe, err := c.partial([]byte{})
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

// Stats returns the current counters.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

func (c *Cache) count(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.stats)
}
