package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
)

func open(t testing.TB, dir string, maxBytes int64) *Cache {
	t.Helper()
	c, err := Open(dir, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func fetch(t testing.TB, c *Cache, from *source, desc ocispec.Descriptor) {
	t.Helper()
	body, err := c.Wrap(from).Fetch(t.Context(), desc)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil || digest.FromBytes(data) != desc.Digest {
		t.Fatalf("got %d bytes with %s, want %s: %v", len(data), digest.FromBytes(data), desc.Digest, err)
	}
}

func blobPath(dir string, d digest.Digest) string {
	name, _ := blobFileName(d)
	return filepath.Join(dir, name)
}

func TestFetchedContentIsReadFromDisk(t *testing.T) {
	for name, size := range map[string]int{"empty content": 0, "small descriptor": 2000,
		"largest content that is kept in memory": smallBytes, "larger content": smallBytes + 1} {
		t.Run(name, func(t *testing.T) {
			from, dir := newSource(), t.TempDir()
			desc := from.add(bytes.Repeat([]byte("x"), size))
			c := open(t, dir, 64<<20)
			for range 3 {
				fetch(t, c, from, desc)
			}
			if c.bytes != int64(size) || from.fetched.Load() != 1 {
				t.Errorf("got %d bytes and %d fetches, want %d bytes and 1 fetch", c.bytes, from.fetched.Load(), size)
			}
			for path, want := range map[string]os.FileMode{blobPath(dir, desc.Digest): 0o600,
				filepath.Join(dir, blobsDir): 0o700 | os.ModeDir} {
				if info, err := os.Stat(path); err != nil || info.Mode() != want {
					t.Errorf("%s: got mode %v and error %v, want %v", path, info.Mode(), err, want)
				}
			}
		})
	}
}

func TestRestartReadsEverythingFromDisk(t *testing.T) {
	from, dir := newSource(), t.TempDir()
	var descs []ocispec.Descriptor
	c := open(t, dir, 64<<20)
	for i := range 500 {
		desc := from.tag(fmt.Sprint("1.0.", i),
			fmt.Sprintf(`{"mediaType":%q,"annotations":{"n":"%d"}}`, ocispec.MediaTypeImageManifest, i))
		fetch(t, c, from, desc)
		if err := c.Pin(fmt.Sprint("module:1.0.", i), desc.Digest); err != nil {
			t.Fatal(err)
		}
		descs = append(descs, desc)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	from.fetched.Store(0)
	from.down = errors.New("the registry is down")
	c = open(t, dir, 64<<20)
	for i, desc := range descs {
		pinned, ok := c.Pinned(fmt.Sprint("module:1.0.", i))
		if !ok || pinned != desc.Digest {
			t.Fatalf("got pinned digest %s and found %t, want %s", pinned, ok, desc.Digest)
		}
		got, err := c.Wrap(from).Resolve(t.Context(), pinned.String())
		if err != nil || got.MediaType != desc.MediaType || got.Size != desc.Size {
			t.Fatalf("Resolve: got %+v and error %v, want %+v", got, err, desc)
		}
		if there, err := c.Wrap(from).Exists(t.Context(), got); err != nil || !there {
			t.Fatalf("Exists: got %t and error %v, want true", there, err)
		}
		fetch(t, c, from, got)
	}
	if from.fetched.Load() != 0 || from.resolved.Load() != 0 {
		t.Errorf("got %d fetches and %d resolved tags, want none", from.fetched.Load(), from.resolved.Load())
	}
}

func TestDamagedFileIsFetchedAgain(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for name, size := range map[string]int{"small": 5000, "large": smallBytes + 10} {
		content := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(outside, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for damage, spoil := range map[string]func(path string) error{
			"file truncated": func(path string) error { return os.Truncate(path, int64(size-1)) },
			"file emptied":   func(path string) error { return os.Truncate(path, 0) },
			"file with an extra byte": func(path string) error {
				return os.WriteFile(path, append(bytes.Clone(content), 'x'), 0o600)
			},
			"file with a changed byte": func(path string) error {
				return os.WriteFile(path, append(bytes.Repeat([]byte("x"), size-1), 'y'), 0o600)
			},
			"replaced by a symbolic link": func(path string) error {
				return errors.Join(os.Remove(path), os.Symlink(outside, path))
			},
			"replaced by a folder": func(path string) error {
				return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "x"), 0o700))
			},
		} {
			t.Run(name+" "+damage, func(t *testing.T) {
				from, dir := newSource(), t.TempDir()
				desc := from.add(content)
				c := open(t, dir, 64<<20)
				fetch(t, c, from, desc)
				if err := spoil(blobPath(dir, desc.Digest)); err != nil {
					t.Fatal(err)
				}
				fetch(t, c, from, desc)
				fetch(t, c, from, desc)
				if got := from.fetched.Load(); got != 2 {
					t.Errorf("got %d fetches, want 2", got)
				}
			})
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

func TestWrongExpectedSizeDoesNotDeleteCachedFile(t *testing.T) {
	from, dir := newSource(), t.TempDir()
	desc := from.add([]byte("content"))
	c := open(t, dir, 1<<20)
	fetch(t, c, from, desc)
	wrong := desc
	wrong.Size++
	if _, err := c.Wrap(from).Fetch(t.Context(), wrong); err == nil ||
		!strings.Contains(err.Error(), "the source sent different content") {
		t.Errorf("wrong size: got error %v, want other content", err)
	}
	from.fetched.Store(0)
	fetch(t, c, from, desc)
	if got := from.fetched.Load(); got != 0 {
		t.Errorf("got %d fetches, want the content from disk", got)
	}
}

func TestContentFromTheSourceIsVerified(t *testing.T) {
	for _, size := range []int{100, smallBytes + 1} {
		from := newSource()
		desc := from.add(bytes.Repeat([]byte("x"), size))
		from.blobs[desc.Digest] = bytes.Repeat([]byte("y"), size)
		dir := t.TempDir()
		c := open(t, dir, 64<<20)
		if _, err := c.Wrap(from).Fetch(t.Context(), desc); err == nil ||
			!strings.Contains(err.Error(), desc.Digest.String()) {
			t.Errorf("damaged source: got error %v, want one with the digest", err)
		}
		for _, name := range []string{blobsDir, partialDir} {
			if left, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(left) > 0 {
				t.Errorf("folder %s: got files %v and error %v, want none", name, left, err)
			}
		}
	}
}

func TestLeastRecentlyUsedFileIsDeletedFirst(t *testing.T) {
	from, dir := newSource(), t.TempDir()
	var descs []ocispec.Descriptor
	c := open(t, dir, 10_000)
	for i := range 9 {
		descs = append(descs, from.add(bytes.Repeat([]byte{byte(i)}, 1000)))
		fetch(t, c, from, descs[i])
	}
	fetch(t, c, from, descs[0])
	c = open(t, dir, 10_000) // the order of use must survive a restart
	for i := range 3 {
		fetch(t, c, from, from.add(bytes.Repeat([]byte{byte(100 + i)}, 1000)))
	}
	if c.bytes > 10_000 {
		t.Errorf("got %d bytes, want at most 10,000", c.bytes)
	}
	from.fetched.Store(0)
	fetch(t, c, from, descs[0])
	fetch(t, c, from, descs[8])
	if from.fetched.Load() != 0 {
		t.Error("the most recently used file was deleted")
	}
	fetch(t, c, from, descs[1])
	if from.fetched.Load() != 1 {
		t.Error("the least recently used file still exists")
	}
}

func TestOversizedFolderShrinksWhenOpened(t *testing.T) {
	from, dir := newSource(), t.TempDir()
	c := open(t, dir, 1<<20)
	for i := range 10 {
		fetch(t, c, from, from.add(bytes.Repeat([]byte{byte(i)}, 1000)))
	}
	c = open(t, dir, 5000)
	if files, err := c.files(); err != nil || len(files) > 5 || c.bytes > 5000 {
		t.Errorf("got %d files, %d bytes and error %v, want at most 5 files and 5,000 bytes", len(files), c.bytes, err)
	}
}

func TestLargeBlobDoesNotDisplaceOtherBlobs(t *testing.T) {
	from, dir := newSource(), t.TempDir()
	desc := from.add(make([]byte, 2501))
	c := open(t, dir, 10_000)
	fetch(t, c, from, desc)
	fetch(t, c, from, desc)
	if from.fetched.Load() != 2 || c.bytes != 0 {
		t.Errorf("got %d fetches and %d bytes, want 2 fetches and an empty cache", from.fetched.Load(), c.bytes)
	}
	from.blobs[desc.Digest] = bytes.Repeat([]byte("y"), 2501)
	body, err := c.Wrap(from).Fetch(t.Context(), desc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(body); err == nil {
		t.Error("content that is not cached is not verified")
	}
	manifest := from.tag("1", `{"mediaType":"`+ocispec.MediaTypeImageManifest+`","annotations":{"x":"`+
		strings.Repeat("x", 2500)+`"}}`)
	for _, reference := range []string{"1", manifest.Digest.String()} {
		_, body, err := c.Wrap(referenceSource{from}).(registry.ReferenceFetcher).FetchReference(t.Context(), reference)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(body); err != nil || digest.FromBytes(data) != manifest.Digest {
			t.Errorf("%s: read the content: got error %v", reference, err)
		}
	}
	fetch(t, c, from, from.add(make([]byte, 2500)))
	if c.bytes != 2500 {
		t.Errorf("got %d bytes, want 2,500", c.bytes)
	}
}

func TestProcessesShareTheSizeLimit(t *testing.T) {
	from, dir := newSource(), t.TempDir()
	one, two := open(t, dir, 20_000), open(t, dir, 20_000)
	for i := range 60 {
		fetch(t, []*Cache{one, two}[i%2], from, from.add(bytes.Repeat([]byte{byte(i)}, 1000)))
	}
	files, err := os.ReadDir(filepath.Join(dir, blobsDir))
	if err != nil || len(files) > 25 || len(files) < 10 {
		t.Errorf("got %d files and error %v, want 10 to 25", len(files), err)
	}
	desc := from.add([]byte("shared"))
	fetch(t, one, from, desc)
	from.fetched.Store(0)
	fetch(t, two, from, desc)
	if from.fetched.Load() != 0 {
		t.Error("one process does not see the files of the other")
	}
}

func TestAbandonedPartialFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, 1<<20)
	old, young := filepath.Join(dir, partialDir, "old"), filepath.Join(dir, partialDir, "young")
	for _, path := range []string{old, young} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-2 * abandonedAfter)
	if err := os.Chtimes(old, then, then); err != nil {
		t.Fatal(err)
	}
	open(t, dir, 1<<20)
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an abandoned partial file still exists: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("a partial file of a running writer was deleted: %v", err)
	}
}

func TestUnusableFolderIsAnError(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "cache"), 1); err == nil || !strings.Contains(err.Error(), "cache "+file) ||
		!strings.Contains(err.Error(), "can write to") {
		t.Errorf("folder below a file: got %v", err)
	}
	if _, err := Open(dir, 0); err == nil || !strings.Contains(err.Error(), "must be greater than 0") {
		t.Errorf("maximum size of 0: got %v", err)
	}
	for _, path := range []string{"/proc/self/fdinfo", "/sys/kernel"} { // read-only, even for root
		if _, err := Open(path, 1); err == nil || !strings.Contains(err.Error(), "cache "+path) ||
			!strings.Contains(err.Error(), "can write to") {
			t.Errorf("read-only folder: got %v", err)
		}
	}
}

func TestCacheReadsFromTheSourceIfItsDiskFails(t *testing.T) {
	// Content that does not fit into memory is fetched again after it could not be written.
	for size, fetches := range map[int]int64{100: 1, smallBytes + 1: 2} {
		from, dir := newSource(), t.TempDir()
		desc := from.add(bytes.Repeat([]byte("x"), size))
		c := open(t, dir, 64<<20)
		if err := os.RemoveAll(filepath.Join(dir, partialDir)); err != nil {
			t.Fatal(err)
		}
		fetch(t, c, from, desc)
		fetch(t, c, from, desc)
		if got := from.fetched.Load(); got != 2*fetches || c.bytes != 0 {
			t.Errorf("got %d fetches and %d bytes, want %d fetches and an empty cache", got, c.bytes, 2*fetches)
		}
	}
}

func TestManifestByTagTakesOneRequest(t *testing.T) {
	from, dir := referenceSource{newSource()}, t.TempDir()
	desc := from.tag("1.0.0", `{"mediaType":"`+ocispec.MediaTypeImageManifest+`"}`)
	c := open(t, dir, 1<<20)
	if _, is := c.Wrap(from.source).(registry.ReferenceFetcher); is {
		t.Error("the wrapper of a source without FetchReference implements FetchReference")
	}
	wrapped := c.Wrap(from).(registry.ReferenceFetcher)
	for i, reference := range []string{"1.0.0", "1.0.0", desc.Digest.String()} {
		got, body, err := wrapped.FetchReference(t.Context(), reference)
		if err != nil || got.Digest != desc.Digest || got.MediaType != desc.MediaType {
			t.Fatalf("got descriptor %+v and error %v, want %+v", got, err, desc)
		}
		if data, err := io.ReadAll(body); err != nil || digest.FromBytes(data) != desc.Digest {
			t.Errorf("got content %q and error %v, want digest %s", data, err, desc.Digest)
		}
		if want := min(int64(i)+1, 2); from.fetched.Load() != want || from.resolved.Load() != 0 {
			t.Errorf("%s: got %d requests, want %d", reference, from.fetched.Load(), want)
		}
	}
	mute := from.tag("2.0.0", `{"schemaVersion":2}`) // a manifest without a mediaType field
	for range 2 {
		got, body, err := wrapped.FetchReference(t.Context(), mute.Digest.String())
		if err != nil || got.MediaType != ocispec.MediaTypeImageManifest {
			t.Fatalf("got descriptor %+v and error %v, want an image manifest", got, err)
		}
		_ = body.Close()
	}
	from.blobs[desc.Digest] = []byte("something else")
	if err := os.Remove(blobPath(dir, desc.Digest)); err != nil {
		t.Fatal(err)
	}
	for _, reference := range []string{"1.0.0", desc.Digest.String()} {
		if _, _, err := wrapped.FetchReference(t.Context(), reference); err == nil ||
			!strings.Contains(err.Error(), "the source sent different content") {
			t.Errorf("%s: got error %v, want other content", reference, err)
		}
	}
	for _, reference := range []string{"3.0.0", digest.FromString("x").String()} {
		if _, _, err := wrapped.FetchReference(t.Context(), reference); !errors.Is(err, errdef.ErrNotFound) {
			t.Errorf("%s: got error %v, want not found", reference, err)
		}
	}
}

func BenchmarkHit(b *testing.B) {
	for name, size := range map[string]int{"2KiB": 2 << 10, "1MiB": 1 << 20, "32MiB": 32 << 20} {
		b.Run(name, func(b *testing.B) {
			from := newSource()
			desc := from.add(bytes.Repeat([]byte("x"), size))
			c := open(b, b.TempDir(), 1<<30)
			wrapped := c.Wrap(from)
			b.SetBytes(int64(size))
			for b.Loop() {
				body, err := wrapped.Fetch(b.Context(), desc)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, body)
				_ = body.Close()
			}
		})
	}
}
