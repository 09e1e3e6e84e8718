package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"
)

const (
	scaler = "component-descriptors/kyma-pull.dev/module/scaler"
	images = "images/scaler"
)

func push(t *testing.T, to content.Pusher, mediaType string, data []byte) ocispec.Descriptor {
	t.Helper()
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := to.Push(t.Context(), desc, bytes.NewReader(data)); err != nil &&
		!errors.Is(err, errdef.ErrAlreadyExists) {
		t.Fatal(err)
	}
	return desc
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func image(t *testing.T, to oras.Target, content string) ocispec.Descriptor {
	t.Helper()
	config := push(t, to, ocispec.MediaTypeImageConfig, []byte(`{"of":"`+content[:1]+`"}`))
	layer := push(t, to, ocispec.MediaTypeImageLayer, []byte(content))
	return push(t, to, ocispec.MediaTypeImageManifest, encode(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config,
		Layers: []ocispec.Descriptor{layer},
	}))
}

func tag(t *testing.T, to oras.Target, desc ocispec.Descriptor, name string) {
	t.Helper()
	if err := to.Tag(t.Context(), desc, name); err != nil {
		t.Fatal(err)
	}
}

// world returns a source repository. It contains a component version with the tag "1.0.0", and an image for two
// platforms with the tag "v1".
func world(t *testing.T) oras.Target {
	t.Helper()
	source := memory.New()
	tag(t, source, image(t, source, "a component's content"), "1.0.0")
	children := []ocispec.Descriptor{image(t, source, "x86"), image(t, source, strings.Repeat("arm", 100_000))}
	tag(t, source, push(t, source, ocispec.MediaTypeImageIndex, encode(t, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: children,
	})), "v1")
	return source
}

func copyAll(t *testing.T, from oras.ReadOnlyTarget, tag string, to oras.Target) ocispec.Descriptor {
	t.Helper()
	desc, err := oras.Copy(t.Context(), from, tag, to, tag, oras.DefaultCopyOptions)
	if err != nil {
		t.Fatal(err)
	}
	return desc
}

func archived(t *testing.T, path string) {
	t.Helper()
	w, err := Create(path, FormatOf(path))
	if err != nil {
		t.Fatal(err)
	}
	source := world(t)
	copyAll(t, source, "1.0.0", w.Target(scaler))
	copyAll(t, source, "v1", w.Target(images))
	if _, err := os.Stat(path); err == nil {
		t.Errorf("archive %s exists before Close", path)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Discard(); err != nil {
		t.Error(err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if len(left) > 0 {
		t.Errorf("after Close: got temporary files %s, want none", left)
	}
}

func open(t *testing.T, path string) *Archive {
	t.Helper()
	a, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

var endings = map[string]string{"folder": "ctf", "tar": "ctf.tar", "tgz": "ctf.tgz", "tar.gz": "ctf.tar.gz"}

func TestArchiveRoundTripsInEveryFormat(t *testing.T) {
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			path := filepath.Join(t.TempDir(), ending)
			archived(t, path)
			a := open(t, path)
			if left, _ := os.ReadDir(temporary); len(left) > 0 {
				t.Errorf("got temporary files %v, want none", left)
			}
			if err := a.Verify(t.Context()); err != nil {
				t.Error(err)
			}
			component, err := a.Open("kyma-pull.dev/module/scaler")
			if err != nil || a.Repository("kyma-pull.dev/module/scaler") != "" || a.String() != path {
				t.Fatalf("got error %v, repository %q, archive %s", err, a.Repository(""), a)
			}
			back := memory.New()
			copyAll(t, component, "1.0.0", back)
			root := copyAll(t, a.Target(images), "v1", back)
			if root.MediaType != ocispec.MediaTypeImageIndex {
				t.Errorf("got media type %s of the image, want an index", root.MediaType)
			}
			children, err := content.Successors(t.Context(), back, root)
			if err != nil || len(children) != 2 {
				t.Fatalf("image has %d platforms (error %v), want 2", len(children), err)
			}
			for _, child := range children {
				got, err := a.Target(images).Resolve(t.Context(), child.Digest.String())
				if err != nil || got.MediaType != ocispec.MediaTypeImageManifest || got.Size != child.Size {
					t.Errorf("resolve a platform by digest: got %+v, %v", got, err)
				}
			}
			versions := a.Versions()
			if len(versions) != 4 || versions[0].Tag != "1.0.0" || versions[1].Tag != "v1" || versions[2].Tag != "" ||
				versions[3].Repository != images {
				t.Errorf("got versions %+v, want 4", versions)
			}
			if _, err := a.Target(scaler).Resolve(t.Context(), "v1"); err == nil {
				t.Error("a tag was found in another repository")
			}
		})
	}
}

func TestEqualContentProducesEqualBytes(t *testing.T) {
	for _, ending := range []string{"ctf.tar", "ctf.tgz"} {
		first, second := filepath.Join(t.TempDir(), ending), filepath.Join(t.TempDir(), ending)
		archived(t, first)
		source := world(t)
		w, err := Create(second, FormatOf(second))
		if err != nil {
			t.Fatal(err)
		}
		copyAll(t, source, "v1", w.Target(images))
		copyAll(t, source, "1.0.0", w.Target(scaler))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		a, b := read(t, first), read(t, second)
		if !bytes.Equal(a, b) {
			t.Errorf("%s: got digests %s and %s of equal content", ending, digest.FromBytes(a), digest.FromBytes(b))
		}
		info, err := os.Stat(first)
		if err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: got mode %v and error %v, want 0644", ending, info.Mode(), err)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestExtendedFolderKeepsRetaggedVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctf")
	archived(t, path)
	before := open(t, path)
	w, err := Create(path, Folder)
	if err != nil {
		t.Fatal(err)
	}
	to := w.Target(scaler)
	released := image(t, to, "released again")
	if !bytes.Equal(read(t, filepath.Join(path, indexFile)),
		encode(t, document{SchemaVersion: 1, Artifacts: before.Versions()})) {
		t.Error("the index changed before Close")
	}
	tag(t, to, released, "1.0.0")
	tag(t, to, released, "1.0.0")
	tag(t, to, released, "latest")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a := open(t, path)
	old := before.Versions()[0].Digest
	var got []string
	for _, v := range a.Versions() {
		if v.Repository == scaler {
			got = append(got, v.Tag+" "+v.Digest.String())
		}
	}
	if want := []string{"1.0.0 " + released.Digest.String(), "latest " + released.Digest.String(),
		" " + old.String()}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := a.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := a.Target(scaler).Resolve(t.Context(), old.String()); err != nil {
		t.Errorf("resolve the old version by digest: %v", err)
	}
}

func TestExtendingFolderReplacesDamagedBlob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctf")
	archived(t, path)
	name, _ := blobName(digest.FromString("x86"))
	if err := os.WriteFile(filepath.Join(path, blobsDir, name), []byte("x8"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Verify(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "blob "+digest.FromString("x86").String()+" in ") ||
		!strings.Contains(err.Error(), ": its content has digest sha256:") {
		t.Errorf("Verify: got error %v, want a wrong digest of blob x86", err)
	}
	w, err := Create(path, Folder)
	if err != nil {
		t.Fatal(err)
	}
	push(t, w.Target(images), ocispec.MediaTypeImageLayer, []byte("x86"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestExistingArchivesAreNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	tarball, full := filepath.Join(dir, "ctf.tar"), filepath.Join(dir, "full")
	archived(t, tarball)
	if err := os.MkdirAll(filepath.Join(full, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{tarball: "allow replacing it", full: "choose an empty or new folder",
		filepath.Join(dir, "no/where.tar"): "no such file"} {
		if _, err := Create(path, FormatOf(path)); err == nil || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := Replace(full, Folder); err == nil || !strings.Contains(err.Error(), "a folder cannot be replaced") {
		t.Errorf("replace a folder: got error %v, want a refusal", err)
	}
	if _, err := Create(filepath.Join(dir, "x"), "zip"); err == nil || !strings.Contains(err.Error(), `format "zip"`) {
		t.Errorf("unknown format: got error %v, want a refusal", err)
	}
	w, err := Replace(tarball, Tar)
	if err != nil {
		t.Fatal(err)
	}
	before := read(t, tarball)
	tag(t, w.Target(scaler), image(t, w.Target(scaler), "new"), "2.0.0")
	if !bytes.Equal(before, read(t, tarball)) {
		t.Error("the archive was replaced before Close")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if versions := open(t, tarball).Versions(); len(versions) != 1 || versions[0].Tag != "2.0.0" {
		t.Errorf("got versions %+v after the replacement", versions)
	}
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("second Close: got error %v, want is closed", err)
	}
	if _, err := w.Target(scaler).Exists(t.Context(), ocispec.Descriptor{Digest: digest.FromString("")}); err == nil {
		t.Error("a closed writer accepts reads")
	}
}

func TestConcurrentWritersAreDetected(t *testing.T) {
	dir := t.TempDir()
	for _, format := range []Format{Folder, Tar} {
		path := filepath.Join(dir, string(format))
		if format == Folder {
			archived(t, path)
		}
		var writers [2]*Writer
		for i := range writers {
			w, err := Create(path, format)
			if err != nil {
				t.Fatal(err)
			}
			writers[i] = w
			tag(t, w.Target(scaler), image(t, w.Target(scaler), string(rune('a'+i))+"lso"), "also")
		}
		if err := writers[0].Close(); err != nil {
			t.Fatal(err)
		}
		want := "already exists (created concurrently)"
		if format == Folder {
			want = "was modified concurrently"
		}
		if err := writers[1].Close(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Close of the second writer: got error %v, want %q", format, err, want)
		}
		if err := open(t, path).Verify(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestInvalidContentIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctf")
	w, err := Create(path, Folder)
	if err != nil {
		t.Fatal(err)
	}
	to := w.Target(scaler)
	d := digest.FromString("good")
	for name, c := range map[string]struct {
		desc ocispec.Descriptor
		body string
	}{
		"bytes differ from digest":     {ocispec.Descriptor{Digest: d, Size: 4}, "evil"},
		"content shorter than size":    {ocispec.Descriptor{Digest: d, Size: 5}, "good"},
		"content longer than size":     {ocispec.Descriptor{Digest: d, Size: 4}, "goods"},
		"digest with a path":           {ocispec.Descriptor{Digest: "sha256:../../x", Size: 4}, "good"},
		"missing digest":               {ocispec.Descriptor{Size: 4}, "good"},
		"unsupported digest algorithm": {ocispec.Descriptor{Digest: digest.SHA384.FromString("good"), Size: 4}, "good"},
		"manifest that is not JSON": {
			ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: d, Size: 4}, "good",
		},
		"manifest with a different media type": {
			ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromString(`{"config":{}}`),
				Size: 13}, `{"config":{}}`,
		},
		"manifest and index at once": {
			ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex,
				Digest: digest.FromString(`{"config":{},"manifests":[]}`), Size: 28}, `{"config":{},"manifests":[]}`,
		},
	} {
		if err := to.Push(t.Context(), c.desc, strings.NewReader(c.body)); err == nil {
			t.Errorf("%s: Push succeeded, want an error", name)
		}
	}
	for repository, tag := range map[string]string{scaler: "a/b", "../x": "1", "a:b": "1"} {
		if err := w.Target(repository).Tag(t.Context(), image(t, to, "x"), tag); err == nil {
			t.Errorf("invalid reference %s:%s was tagged", repository, tag)
		}
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".ctf.*", ".*"))
	if len(left) > 0 {
		t.Errorf("after the failed writes: got files %s, want none", left)
	}
	if err := w.Discard(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) > 0 {
		t.Errorf("files remain after Discard: %v", left)
	}
}

func TestReadingADamagedBlobFailsAtTheLastByte(t *testing.T) {
	for name, ending := range endings {
		if strings.HasPrefix(name, "t") && strings.Contains(name, "gz") {
			continue // in a compressed archive, the gzip checksum fails first
		}
		path := filepath.Join(t.TempDir(), ending)
		archived(t, path)
		file := path
		if name == "folder" {
			blob, _ := blobName(digest.FromString("x86"))
			file = filepath.Join(path, blobsDir, blob)
		}
		if err := os.WriteFile(file, bytes.Replace(read(t, file), []byte("x86"), []byte("x87"), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		body, err := open(t, path).Target(images).Fetch(t.Context(), ocispec.Descriptor{
			Digest: digest.FromString("x86"), Size: 3,
		})
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(body)
		if err == nil || !strings.Contains(err.Error(), ": its content has digest sha256:") || string(data) != "x87" {
			t.Errorf("%s: got content %q and error %v, want an error after the last byte", name, data, err)
		}
		_ = body.Close()
	}
}
