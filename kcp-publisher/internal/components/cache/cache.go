// Package cache keeps blobs and manifests by digest on disk, so that a restart fetches nothing twice.
//
// In goes an OCI repository; out comes one that answers from disk what it was asked for before. What it hands out is
// checked against its digest on every read, wherever it comes from: before the first byte, or at the end of a stream
// that is too large to keep. What is damaged on disk is dropped and fetched again. It stays below its size by dropping
// what was read longest ago. Pins say which digest a name had when it was first read, and are never dropped.
//
// It never answers what a tag means, never makes a file name of anything but a checked digest, and never fails a read
// because the disk is full or gone: then it passes through, and Stats says so.
//
// Several processes may share the folder. Files appear by rename and carry the time of their last use, so that the
// folder itself is the truth about what is there and what goes first; nothing is held in memory that could disagree
// with it.
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
	blobsDir   = "blobs"   // what was fetched, as sha256.<hexadecimal>
	pinsDir    = "pins"    // see Pin
	partialDir = "partial" // files that are being written

	// abandonedAfter is when a partial file belongs to nobody any more. Its time moves with every write, and a request is
	// stopped after minutes.
	abandonedAfter = time.Hour
	// smallBytes is what is checked in memory on its way out: manifests, configs, descriptors and most modules' content.
	// What is larger is read twice, once to check it and once to hand it out.
	smallBytes = 4 << 20
	// blobShare of the whole size is the largest blob that is kept: one image must not push out all descriptors.
	blobShare = 4
	// scanShare of the whole size is written before the folder is looked at again, for what other processes wrote.
	scanShare = 8
)

// Cache is a folder with what was fetched. It may be used by any number of goroutines.
type Cache struct {
	dir      string
	root     *os.Root
	maxBytes int64
	flights  singleflight.Group // by digest: one fetch at a time
	eviction sync.Mutex         // held while files are counted and dropped; taken before mu

	mu      sync.Mutex // guards what follows
	stats   Stats
	written int64 // bytes since the folder was last looked at
	pins    map[string]digest.Digest
}

// Stats tells an operator how the cache does. Counters start at zero with the process.
type Stats struct {
	Hits   int64 // reads answered from disk, or by another read that was under way
	Misses int64 // reads that had to ask the source
	// Damaged files were found, dropped and fetched again. More than a few mean a failing disk, or somebody who writes
	// there.
	Damaged int64
	Evicted int64 // files dropped because the cache was full
	// Unstored reads could not be kept, because the disk was full or not writable. Failure is the last one's reason.
	Unstored int64
	Failure  string
	Bytes    int64 // on disk, as far as this process knows
}

// Open opens the cache in dir, which is made when needed, and removes what processes that died left half written. It
// may grow to maxBytes; single blobs of more than a quarter of it are not kept.
//
// A pin that cannot be read is an error that names its file: forgetting it would mean to trust what a registry says
// now.
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

// Close lets go of the folder.
func (c *Cache) Close() error { return c.root.Close() }

// Stats returns the counters as they are now.
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
