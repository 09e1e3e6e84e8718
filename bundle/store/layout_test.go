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

func TestManyMayTagInOneFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layout")
	const writers, tags = 8, 20
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range tags {
				repository, err := openLayout(dir, fmt.Sprintf("runtimes/r-%d", w))
				if err == nil {
					err = PushManifest(t.Context(), repository, manifestBlob(fmt.Sprintf(`{"n":%d}`, i)), fmt.Sprintf("v%d", i))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	store, err := oci.NewFromFS(t.Context(), os.DirFS(dir)) // as oras reads it
	if err != nil {
		t.Fatal(err)
	}
	for w := range writers {
		for i := range tags {
			name := fmt.Sprintf("runtimes/r-%d:v%d", w, i)
			if d, err := store.Resolve(t.Context(), name); err != nil || d.Digest != manifestBlob(fmt.Sprintf(`{"n":%d}`, i)).Descriptor.Digest {
				t.Errorf("%s is %s, %v", name, d.Digest, err)
			}
		}
	}
}

func TestATagThatMovesOnLeavesItsManifestByDigest(t *testing.T) {
	repository, err := openLayout(t.TempDir(), "runtimes/berlin")
	if err != nil {
		t.Fatal(err)
	}
	first, second := manifestBlob(`{"n":1}`), manifestBlob(`{"n":2}`)
	for _, blob := range []bundle.Blob{first, second, second} {
		if err := PushManifest(t.Context(), repository, blob, bundle.TagDesired); err != nil {
			t.Fatal(err)
		}
	}
	for reference, want := range map[string]bundle.Blob{bundle.TagDesired: second, first.Descriptor.Digest.String(): first, second.Descriptor.Digest.String(): second} {
		if d, err := repository.Resolve(t.Context(), reference); err != nil || d.Digest != want.Descriptor.Digest || d.Annotations != nil {
			t.Errorf("%s is %+v, %v", reference, d, err)
		}
	}
	index, err := repository.index()
	if err != nil || len(index.Manifests) != 2 {
		t.Errorf("the index is %+v, %v", index.Manifests, err)
	}
	if err := repository.Tag(t.Context(), manifestBlob(`{"n":3}`).Descriptor, "x"); err == nil {
		t.Error("names a manifest that is not there")
	}
}

// TestWhatAPowerCutLeavesIsWrittenAnew has a blob whose name reached the disk and whose bytes did not, and a half one.
func TestWhatAPowerCutLeavesIsWrittenAnew(t *testing.T) {
	repository, err := openLayout(t.TempDir(), "content")
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
		t.Errorf("half a blob is there: %v, %v", there, err)
	}
	if err := repository.Push(t.Context(), blob.Descriptor, bytes.NewReader(blob.Bytes)); err != nil {
		t.Fatal(err)
	}
	if data, err := content.FetchAll(t.Context(), repository, blob.Descriptor); err != nil || !bytes.Equal(data, blob.Bytes) {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("half a blob is left for ever")
	}
	if err := repository.Push(t.Context(), blob.Descriptor, strings.NewReader("content")); err == nil {
		t.Error("what is there is written again")
	}
}
