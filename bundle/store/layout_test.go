package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func manifestBlob(text string) bundle.Blob {
	return bundle.NewBlob(ocispec.MediaTypeImageManifest, []byte(text))
}

func TestConcurrentWritersOfAFolderLoseNoTags(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layout")
	const writers, tags = 8, 20
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range tags {
				repository, err := openLayout(newLayoutIndex(dir), fmt.Sprintf("runtimes/r-%d", w))
				if err == nil {
					err = PushManifest(t.Context(), repository, manifestBlob(fmt.Sprintf(`{"n":%d}`, i)),
						fmt.Sprintf("v%d", i))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	store, err := oci.NewFromFS(t.Context(), os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	for w := range writers {
		for i := range tags {
			name := fmt.Sprintf("runtimes/r-%d:v%d", w, i)
			if d, err := store.Resolve(t.Context(), name); err != nil ||
				d.Digest != manifestBlob(fmt.Sprintf(`{"n":%d}`, i)).Descriptor.Digest {
				t.Errorf("%s: got manifest %s, error %v, want the pushed manifest", name, d.Digest, err)
			}
		}
	}
}

func TestMovedTagKeepsTheManifestByDigest(t *testing.T) {
	repository, err := openLayout(newLayoutIndex(t.TempDir()), "runtimes/berlin")
	if err != nil {
		t.Fatal(err)
	}
	first, second := manifestBlob(`{"n":1}`), manifestBlob(`{"n":2}`)
	for _, blob := range []bundle.Blob{first, second, second} {
		if err := PushManifest(t.Context(), repository, blob, bundle.TagDesired); err != nil {
			t.Fatal(err)
		}
	}
	for reference, want := range map[string]bundle.Blob{bundle.TagDesired: second,
		first.Descriptor.Digest.String(): first, second.Descriptor.Digest.String(): second} {
		if d, err := repository.Resolve(t.Context(), reference); err != nil || d.Digest != want.Descriptor.Digest ||
			d.Annotations != nil {
			t.Errorf("%s: got %+v, error %v, want %s", reference, d, err, want.Descriptor.Digest)
		}
	}
	listed, err := repository.index.manifests()
	if err != nil || len(listed) != 2 {
		t.Errorf("got index %+v, error %v, want two manifests", listed, err)
	}
	if err := repository.Tag(t.Context(), manifestBlob(`{"n":3}`).Descriptor, "x"); err == nil {
		t.Error("tagged a missing manifest, want an error")
	}
}

func TestLayoutIsRepairedAfterAPowerCut(t *testing.T) {
	repository, err := openLayout(newLayoutIndex(t.TempDir()), "content")
	if err != nil {
		t.Fatal(err)
	}
	blob := bundle.NewBlob("application/x-tar", []byte("content"))
	half := repository.path("ingest", blob.Descriptor.Digest.Encoded()+"_123")
	for _, path := range []string{repository.blob(blob.Descriptor), half} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("con"), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * abandonedAfter)
	if err := os.Chtimes(half, long, long); err != nil {
		t.Fatal(err)
	}
	if there, err := repository.Exists(t.Context(), blob.Descriptor); err != nil || there {
		t.Errorf("incomplete blob: got exists %t, error %v, want false", there, err)
	}
	if err := repository.Push(t.Context(), blob.Descriptor, bytes.NewReader(blob.Bytes)); err != nil {
		t.Fatal(err)
	}
	if data, err := content.FetchAll(t.Context(), repository, blob.Descriptor); err != nil ||
		!bytes.Equal(data, blob.Bytes) {
		t.Errorf("got blob %q, error %v, want the pushed blob", data, err)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("got a remaining partial file of an incomplete blob, want none")
	}
	if err := repository.Push(t.Context(), blob.Descriptor, strings.NewReader("content")); err == nil {
		t.Error("pushed an existing blob again, want an error")
	}
}

func pushNumbered(t testing.TB, place Store, runtime string, n int) {
	t.Helper()
	repository, err := place.Repository(t.Context(), "runtimes/"+runtime)
	if err == nil {
		err = PushManifest(t.Context(), repository, manifestBlob(fmt.Sprintf(`{"%s":%d}`, runtime, n)),
			bundle.TagDesired)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func namedIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	listed, err := newLayoutIndex(dir).manifests()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range listed {
		names[d.Annotations[ocispec.AnnotationRefName]] = true
	}
	return names
}

func TestPendingBatchIsReadableAndPreservesConcurrentWrites(t *testing.T) {
	dir := t.TempDir()
	batched, other := NewLayout(dir), NewLayout(dir)
	flush := Batch(batched)
	pushNumbered(t, batched, "berlin", 1)
	pushNumbered(t, other, "tokyo", 1)
	pushNumbered(t, batched, "berlin", 2)
	if names := namedIn(t, dir); !names["runtimes/tokyo:desired"] || names["runtimes/berlin:desired"] {
		t.Errorf("before the flush: got names %v in the folder, want only the other process's name", names)
	}
	for runtime, n := range map[string]int{"berlin": 2, "tokyo": 1} {
		repository, err := batched.Repository(t.Context(), "runtimes/"+runtime)
		if err != nil {
			t.Fatal(err)
		}
		want := manifestBlob(fmt.Sprintf(`{"%s":%d}`, runtime, n)).Descriptor.Digest
		if found, err := Head(t.Context(), repository, bundle.TagDesired); err != nil || found != want {
			t.Errorf("within the batch: got %s for %s, error %v, want %s", found, runtime, err, want)
		}
	}
	for range 2 {
		if err := flush(); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := newLayoutIndex(dir).manifests()
	if names := namedIn(t, dir); err != nil || !names["runtimes/tokyo:desired"] || !names["runtimes/berlin:desired"] ||
		len(listed) != 3 {
		t.Errorf("after the flush: got names %v and %d manifests in the folder, error %v", names, len(listed), err)
	}
}

func TestFailedWriteOfABatchIsRetried(t *testing.T) {
	dir := t.TempDir()
	batched := NewLayout(dir)
	flush := Batch(batched)
	pushNumbered(t, batched, "berlin", 1)
	index := filepath.Join(dir, ocispec.ImageIndexFile)
	if err := os.WriteFile(index, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := flush(); err == nil {
		t.Error("replaced an unreadable index, want an error")
	}
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if err := flush(); err != nil {
		t.Fatal(err)
	}
	if names := namedIn(t, dir); !names["runtimes/berlin:desired"] {
		t.Errorf("got names %v in the folder, want the pushed name", names)
	}
}

func TestBatchLimitsIndexWrites(t *testing.T) {
	dir := t.TempDir()
	place := NewLayout(dir)
	flush := Batch(place)
	const runtimes = 1500
	writes := 0
	var last os.FileInfo
	for i := range runtimes {
		pushNumbered(t, place, fmt.Sprintf("r-%d", i), i)
		info, err := os.Stat(filepath.Join(dir, ocispec.ImageIndexFile))
		if err != nil {
			t.Fatal(err)
		}
		if last == nil || !os.SameFile(last, info) {
			writes++
		}
		last = info
	}
	if err := flush(); err != nil {
		t.Fatal(err)
	}
	// Each push makes two changes: the manifest and its tag.
	if most := 2*runtimes/minBatch + 1; writes > most {
		t.Errorf("%d pushes wrote the index %d times, want at most %d", runtimes, writes, most)
	}
	if names := namedIn(t, dir); len(names) != runtimes {
		t.Errorf("got %d named bundles, want %d", len(names), runtimes)
	}
}

func BenchmarkPublishToAFolder(b *testing.B) {
	for _, runtimes := range []int{250, 1000, 4000} {
		b.Run(fmt.Sprint(runtimes), func(b *testing.B) {
			for b.Loop() {
				place := NewLayout(b.TempDir())
				flush := Batch(place)
				for i := range runtimes {
					pushNumbered(b, place, fmt.Sprintf("r-%d", i), i)
				}
				if err := flush(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*runtimes), "µs/runtime")
		})
	}
}
