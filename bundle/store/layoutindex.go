package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gofrs/flock"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// layoutIndex is the index.json of an OCI layout, with changes that are not written yet. It is safe for concurrent use.
// Other processes can change the file at any time:
//   - A read checks whether the file was replaced since the last read.
//   - A write locks the folder, reads the file again and applies the pending changes in order.
//   - The file is always replaced as a whole.
type layoutIndex struct {
	dir   string
	blobs *layoutBlobs

	mu       sync.Mutex // guards the fields below
	known    memoryIndex
	lastInfo os.FileInfo // nil before the first read
	data     []byte      // content of index.json
	pending  []indexChange
	batch    bool
}

// indexChange adds a manifest to the index. The name is "<repository>:<tag>", or empty for a manifest without a tag. If
// the file of the manifest that had this name before is missing or damaged, lost is that manifest's digest.
type indexChange struct {
	manifest ocispec.Descriptor
	name     string
	lost     digest.Digest
}

func newLayoutIndex(dir string) *layoutIndex {
	return &layoutIndex{dir: dir, blobs: newLayoutBlobs(dir)}
}

const minBatch = 256

// mustFlush reports whether the pending changes must be written. The threshold grows with the number of manifests in
// the index, so that the average cost per change stays constant.
func mustFlush(pending, manifests int) bool { return pending >= max(minBatch, manifests/8) }

func (x *layoutIndex) path() string { return filepath.Join(x.dir, ocispec.ImageIndexFile) }

func (x *layoutIndex) ensure() error {
	if _, err := os.Stat(x.path()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write()
}

func (x *layoutIndex) change(c indexChange) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(); err != nil {
		return err
	}
	x.known.apply(c)
	x.pending = append(x.pending, c)
	if x.batch && !mustFlush(len(x.pending), x.known.live) {
		return nil
	}
	err := x.write()
	if !x.batch && err != nil {
		x.pending, x.lastInfo = nil, nil // do not retry the change: the caller gets the error
	}
	return err
}

func (x *layoutIndex) flush() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.pending) == 0 {
		return nil
	}
	return x.write()
}

// resolve returns the descriptor for a manifest with the given name, "<repository>:<tag>". If no manifest has this
// name, resolve looks for the digest in reference.
func (x *layoutIndex) resolve(name, reference string) (ocispec.Descriptor, bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(); err != nil {
		return ocispec.Descriptor{}, false, err
	}
	d, found := x.known.find(name, reference)
	return d, found, nil
}

func (x *layoutIndex) manifests() ([]ocispec.Descriptor, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(); err != nil {
		return nil, err
	}
	return x.known.index().Manifests, nil
}

func (x *layoutIndex) refresh() error {
	info, err := os.Stat(x.path())
	if err == nil && x.lastInfo != nil && isUnchanged(x.lastInfo, info) {
		return nil
	}
	return x.read()
}

func (x *layoutIndex) read() error {
	data, info, err := readRegular(x.path(), maxIndexBytes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if x.lastInfo != nil && info != nil && bytes.Equal(data, x.data) {
		x.lastInfo = info
		return nil
	}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	if info != nil {
		index.SchemaVersion = 0
		err := json.Unmarshal(data, &index)
		if err == nil && index.SchemaVersion != 2 {
			err = fmt.Errorf("schemaVersion is %d, must be 2", index.SchemaVersion)
		}
		if err != nil {
			return fmt.Errorf(
				"%s: %w: restore it from a backup, or move it away and repeat the command; the new index "+
					"then contains only the tags that the command writes", x.path(), err)
		}
	}
	x.known, x.lastInfo, x.data = newIndexed(index), info, data
	for _, c := range x.pending {
		x.known.apply(c)
	}
	return nil
}

// maxIndexBytes limits the size of index.json. Each manifest needs about 300 bytes.
const maxIndexBytes = 256 << 20

// write syncs the blobs to disk, then replaces index.json. A crash therefore never leaves an index with missing blobs.
func (x *layoutIndex) write() error {
	lock := flock.New(x.dir, flock.SetFlag(os.O_RDONLY))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock OCI layout %s: %w", x.dir, err)
	}
	err := x.read()
	var data []byte
	if err == nil {
		data, err = json.Marshal(x.known.index())
	}
	if err == nil {
		err = SyncFolder(filepath.Join(x.dir, ocispec.ImageBlobsDir, "sha256"))
	}
	var info os.FileInfo
	if err == nil {
		info, err = replaceFile(x.dir, ocispec.ImageIndexFile, data)
	}
	if err == nil {
		x.lastInfo, x.data, x.pending = info, data, nil
	}
	return errors.Join(err, lock.Unlock())
}

func replaceFile(dir, name string, data []byte) (os.FileInfo, error) {
	file, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return nil, err
	}
	var info os.FileInfo
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(0o644), file.Sync()); err == nil {
		info, err = file.Stat()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()))
	}
	return info, SyncFolder(dir)
}

// memoryIndex is the content of index.json in memory. Each change takes constant time.
type memoryIndex struct {
	head     ocispec.Index // index.json without its manifests
	all      []ocispec.Descriptor
	removed  []bool
	live     int
	byName   map[string][]int
	byDigest map[digest.Digest][]int
}

func newIndexed(index ocispec.Index) memoryIndex {
	x := memoryIndex{head: index, byName: map[string][]int{}, byDigest: map[digest.Digest][]int{}}
	x.head.Manifests = nil
	for _, d := range index.Manifests {
		x.add(d)
	}
	return x
}

func (x *memoryIndex) add(d ocispec.Descriptor) {
	at := len(x.all)
	x.all, x.removed, x.live = append(x.all, d), append(x.removed, false), x.live+1
	x.byDigest[d.Digest] = append(x.byDigest[d.Digest], at)
	if name := d.Annotations[ocispec.AnnotationRefName]; name != "" {
		x.byName[name] = append(x.byName[name], at)
	}
}

func (x *memoryIndex) remove(at int) {
	d := x.all[at]
	x.removed[at], x.live = true, x.live-1
	drop(x.byDigest, d.Digest, at)
	drop(x.byName, d.Annotations[ocispec.AnnotationRefName], at)
	x.all[at] = ocispec.Descriptor{}
}

func drop[K comparable](places map[K][]int, key K, at int) {
	left := slices.DeleteFunc(places[key], func(i int) bool { return i == at })
	if len(left) == 0 {
		delete(places, key)
		return
	}
	places[key] = left
}

// apply changes the index. It also lists manifests without a name, so that their referrers can be found.
func (x *memoryIndex) apply(c indexChange) {
	d := withoutName(c.manifest)
	if c.name == "" {
		if len(x.byDigest[d.Digest]) == 0 {
			x.add(d)
		}
		return
	}
	var before *ocispec.Descriptor
	for _, at := range slices.Clone(x.byName[c.name]) {
		had := x.all[at]
		before = &had
		x.remove(at)
	}
	for _, at := range slices.Clone(x.byDigest[d.Digest]) {
		if x.all[at].Annotations[ocispec.AnnotationRefName] == "" {
			x.remove(at)
		}
	}
	if before != nil && before.Digest != d.Digest && before.Digest != c.lost && len(x.byDigest[before.Digest]) == 0 {
		x.add(withoutName(*before))
	}
	d.Annotations = map[string]string{ocispec.AnnotationRefName: c.name}
	x.add(d)
}

func (x *memoryIndex) find(name, reference string) (ocispec.Descriptor, bool) {
	places := x.byName[name]
	if len(places) == 0 {
		places = x.byDigest[digest.Digest(reference)]
	}
	if len(places) == 0 {
		return ocispec.Descriptor{}, false
	}
	return withoutName(x.all[places[0]]), true
}

func (x *memoryIndex) index() ocispec.Index {
	if x.live < len(x.all) {
		left := make([]ocispec.Descriptor, 0, x.live)
		for at, d := range x.all {
			if !x.removed[at] {
				left = append(left, d)
			}
		}
		head := x.head
		head.Manifests = left
		*x = newIndexed(head)
	}
	index := x.head
	index.Manifests = append([]ocispec.Descriptor{}, x.all...)
	return index
}

func withoutName(d ocispec.Descriptor) ocispec.Descriptor {
	return ocispec.Descriptor{
		MediaType: d.MediaType, Digest: d.Digest, Size: d.Size, ArtifactType: d.ArtifactType, Platform: d.Platform,
	}
}
