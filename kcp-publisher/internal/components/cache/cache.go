// Package cache keeps blobs and manifests by digest on disk, so that a restart fetches nothing twice.
//
// It wraps an OCI repository and serves earlier reads from disk. Every read is checked against its digest: before the
// first byte, or at the end of a stream that is too large to keep. A damaged file is dropped and fetched again. The
// least recently used files are dropped if the cache is full. Pins record the digest of a name at its first read and
// are never dropped.
//
// The cache never resolves a tag, and uses only checked digests as file names. A full or missing disk never fails a
// read: the cache passes it through and counts it in Stats.
//
// Several processes can share the folder. Files appear by rename and carry the time of their last use, so the folder
// itself is the only state.
package cache

import (
	_ "crypto/sha256" // digests
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
	pinsDir    = "pins"    // see Pin
	partialDir = "partial" // incomplete files

	// abandonedAfter is the minimum age of an abandoned partial file. Every write updates its modification time, and no
	// request lasts longer than a few minutes.
	abandonedAfter = time.Hour
	// smallBytes is the largest size that is checked in memory: manifests, configs, descriptors and most modules' content.
	// Larger content is read twice: for the check and for the caller.
	smallBytes = 4 << 20
	// blobShare of the whole size is the largest blob that is kept: one image must not displace all descriptors.
	blobShare = 4
	// scanShare of the whole size is written between two scans of the folder for the files of other processes.
	scanShare = 8
)

// Cache is a folder with fetched content. It is safe for concurrent use.
type Cache struct {
	dir      string
	root     *os.Root
	maxBytes int64
	flights  singleflight.Group // by digest: one fetch at a time
	eviction sync.Mutex         // held while files are counted and dropped; taken before mu

	mu      sync.Mutex // guards the fields below
	stats   Stats
	written int64 // bytes since the last scan of the folder
	pins    map[string]digest.Digest
}

// Stats are the counters of a cache. They start at zero with the process.
type Stats struct {
	Hits   int64 // reads served from disk, or by a concurrent read
	Misses int64 // reads from the source
	// Damaged files were dropped and fetched again. More than a few mean a failing disk, or another writer in the folder.
	Damaged int64
	Evicted int64 // files dropped because the cache was full
	// Unstored reads could not be kept because the disk was full or not writable. Failure is the last reason.
	Unstored int64
	Failure  string
	Bytes    int64 // on disk, as far as this process knows
}

// Open opens the cache in dir, creates dir if needed, and removes the partial files of dead processes. The cache can
// grow to maxBytes; it does not keep blobs larger than a quarter of that.
//
// A pin that cannot be read is an error that names its file: without the pin, the cache would trust the registry's
// current content.
func Open(dir string, maxBytes int64) (*Cache, error) {
	if maxBytes <= 0 {
		return nil, fmt.Errorf("cache %s: size of %d bytes: want more than 0", dir, maxBytes)
	}
	c := &Cache{dir: dir, maxBytes: maxBytes, pins: map[string]digest.Digest{}}
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("cache %s: %w", dir, err)
	}
	return c, nil
}

func (c *Cache) prepare() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("%w: name a folder that this process may write to", err)
	}
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return err
	}
	c.root = root
	for _, name := range []string{blobsDir, pinsDir, partialDir} {
		if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return errors.Join(fmt.Errorf("%w: name a folder that this process may write to", err), root.Close())
		}
	}
	probe, err := c.partial([]byte{})
	if err != nil {
		return errors.Join(fmt.Errorf("%w: name a folder that this process may write to", err), root.Close())
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
