package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
)

const emptyIndex = `{"schemaVersion":1,"artifacts":[]}`

func file(name, data string) tarEntry { return tarEntry{tar.Header{Name: name, Mode: 0o644}, data} }

type tarEntry struct {
	header tar.Header
	data   string
}

func pack(t testing.TB, entries ...tarEntry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if e.header.Size == 0 {
			e.header.Size = int64(len(e.data))
		}
		if err := w.WriteHeader(&e.header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zip(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestHostileTarIsRefused(t *testing.T) {
	index, blob := file(indexFile, emptyIndex), file("blobs/sha256."+digest.FromString("x").Encoded(), "x")
	typed := func(name string, typeflag byte, link string) tarEntry {
		return tarEntry{tar.Header{Name: name, Typeflag: typeflag, Linkname: link, Mode: 0o644}, ""}
	}
	whole := pack(t, index, blob)
	big := strings.Repeat("\x00", 3<<20)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"valid archive": {whole, ""},
		"archive with ./ names, folders and the index last": {
			pack(t, typed("./", tar.TypeDir, ""), typed("./blobs/", tar.TypeDir, ""), file("./"+blob.header.Name, "x"),
				file("./"+indexFile, emptyIndex)), "",
		},
		"zeros after the end":                 {append(bytes.Clone(whole), make([]byte, 10240)...), ""},
		"empty file":                          {nil, "the end marker is missing"},
		"only zeros":                          {make([]byte, 1024), indexFile + " is missing"},
		"text instead of a tar":               {[]byte(strings.Repeat("hello", 200)), "invalid tar header"},
		"compressed with zstd":                {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0}, "zstd"},
		"missing index":                       {pack(t, blob), indexFile + " is missing"},
		"duplicate index":                     {pack(t, index, index), "duplicate entry"},
		"duplicate index with ./ in its name": {pack(t, index, file("./"+indexFile, emptyIndex)), "duplicate entry"},
		"duplicate blob":                      {pack(t, index, blob, blob), "duplicate entry"},
		"index larger than the limit": {
			pack(t, file(indexFile, strings.Repeat(" ", maxIndexBytes+1))), "larger than",
		},
		"path outside of the archive":  {pack(t, index, file("../x", "x")), `entry "../x"`},
		"path out of the blobs folder": {pack(t, index, file("blobs/../../x", "x")), `entry "blobs/../../x"`},
		"absolute path": {
			pack(t, index, file("/"+blob.header.Name, "x")), "must be artifact-index.json, or blobs/",
		},
		"name that starts with ././": {
			pack(t, index, file("././"+blob.header.Name, "x")), "must be artifact-index.json",
		},
		"file that is not part of an archive": {pack(t, index, file("README.md", "x")), `entry "README.md"`},
		"component archive": {
			pack(t, file("component-descriptor.yaml", "x")), `entry "component-descriptor.yaml"`,
		},
		"blob name in upper case": {
			pack(t, index, file(strings.ToUpper(blob.header.Name), "x")), "must be artifact-index.json",
		},
		"digest that is too short": {
			pack(t, index, file("blobs/sha256.00", "x")), "must be artifact-index.json",
		},
		"folder other than blobs": {
			pack(t, index, typed("etc/", tar.TypeDir, "")), "the only allowed folder is blobs",
		},
		"symbolic link": {
			pack(t, index, typed(blob.header.Name, tar.TypeSymlink, "/etc/passwd")), "must be a file or folder",
		},
		"hard link": {
			pack(t, index, typed(blob.header.Name, tar.TypeLink, indexFile)), "must be a file or folder",
		},
		"block device": {
			pack(t, index, typed(blob.header.Name, tar.TypeBlock, "")), "must be a file or folder",
		},
		"named pipe": {
			pack(t, index, typed(blob.header.Name, tar.TypeFifo, "")), "must be a file or folder",
		},
		"blobs folder as a symbolic link": {
			pack(t, index, typed("blobs", tar.TypeSymlink, "/etc")), "must be a file or folder",
		},
		"global PAX header": {
			pack(t, tarEntry{
				tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"comment": "x"}},
				"",
			}, index), "must be a file or folder",
		},
		"more entries than allowed": {
			pack(t, index, blob, file("blobs/sha256."+digest.FromString("y").Encoded(), "y"),
				file("blobs/sha256."+digest.FromString("z").Encoded(), "z")), "more than 3 entries",
		},
		"truncated within a blob":   {pack(t, index, file(blob.header.Name, big))[:2<<20], "truncated"},
		"truncated between entries": {whole[:2048], "truncated"},
		"truncated within a header": {whole[:1100], "unexpected EOF"},
		"data after the end": {
			append(bytes.Clone(whole), pack(t, index)...), "unexpected data after the last entry",
		},
		"too many zeros after the end": {
			append(bytes.Clone(whole), make([]byte, maxPaddingBytes)...), "larger than",
		},
		"gzipped archive":            {zip(t, whole), ""},
		"data after the gzip stream": {append(zip(t, whole), 0), "unexpected data after the gzip stream"},
		"two gzip streams": {
			append(zip(t, whole[:512]), zip(t, whole[512:])...), "unexpected data after the gzip stream",
		},
		"truncated gzip stream": {zip(t, whole)[:60], "unexpected EOF"},
		"damaged gzip stream":   {flip(zip(t, whole), -6), "checksum"},
		"decompression bomb": {
			zip(t, pack(t, index, file(blob.header.Name, strings.Repeat(big, 7)))),
			"unpacks to more than 16777216 bytes",
		},
		"unpacked size over the limit": {
			zip(t, pack(t, index, file(blob.header.Name, strings.Repeat(big, 11)))), "unpacks to more than",
		},
		"unsupported index schema": {pack(t, file(indexFile, `{"schemaVersion":2}`)), "schemaVersion 2"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ctf.tar")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := Limits{Entries: 3, UnpackedBytes: 32 << 20, Ratio: 200}.Open(path)
			if name == "archive with ./ names, folders and the index last" {
				a, err = Open(path)
			}
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Verify(t.Context()); err != nil {
				t.Error(err)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func flip(data []byte, at int) []byte {
	data[len(data)+at] ^= 1
	return data
}

func TestSparseFileIsRefused(t *testing.T) {
	header := &tar.Header{
		PAXRecords: map[string]string{"GNU.sparse.realsize": "1099511627776"}, Typeflag: tar.TypeReg, Name: indexFile,
	}
	if _, err := entryName(header); err == nil || !strings.Contains(err.Error(), "sparse") {
		t.Errorf("sparse file: got error %v, want a refusal", err)
	}
	header = &tar.Header{Typeflag: tar.TypeGNUSparse, Name: indexFile}
	if _, err := entryName(header); err == nil {
		t.Error("an old GNU sparse file is accepted")
	}
}

func TestHostileIndexIsRefused(t *testing.T) {
	entry := func(repository, tag string, d digest.Digest) string {
		return fmt.Sprintf(`{"repository":%q,"tag":%q,"digest":%q}`, repository, tag, d)
	}
	a, b := digest.FromString("a"), digest.FromString("b")
	for name, c := range map[string]struct{ in, want string }{
		"invalid JSON":               {"{", "unexpected end"},
		"unsupported schema version": {`{"schemaVersion":2}`, "schemaVersion 2"},
		"digest with a path": {
			`{"schemaVersion":1,"artifacts":[` + entry("r", "1", "../../etc/passwd") + `]}`, "artifacts[0].digest",
		},
		"unsupported digest algorithm": {
			`{"schemaVersion":1,"artifacts":[` + entry("r", "1", "md5:00") + `]}`, "artifacts[0].digest",
		},
		"repository with a path": {
			`{"schemaVersion":1,"artifacts":[` + entry("../r", "1", a) + `]}`, "artifacts[0].repository",
		},
		"empty repository": {
			`{"schemaVersion":1,"artifacts":[` + entry("", "1", a) + `]}`, "artifacts[0].repository",
		},
		"repository with a tag": {
			`{"schemaVersion":1,"artifacts":[` + entry("r:1", "2", a) + `]}`, "artifacts[0].repository",
		},
		"tag with a path": {
			`{"schemaVersion":1,"artifacts":[` + entry("r", "../x", a) + `]}`, "artifacts[0].tag",
		},
		"one tag with two digests": {
			`{"schemaVersion":1,"artifacts":[` + entry("r", "1", a) + `,` + entry("r", "1", b) + `]}`,
			"artifacts[1]: r:1 has two digests",
		},
		"duplicate key": {`{"schemaVersion":1,"artifacts":[],"artifacts":[]}`, "duplicate field"},
		"duplicate entry is accepted": {
			`{"schemaVersion":1,"artifacts":[` + entry("r", "1", a) + `,` + entry("r", "1", a) + `]}`, "",
		},
	} {
		_, err := decodeIndex([]byte(c.in))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func folderWith(t *testing.T, index string, blobs ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, blobsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, indexFile), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs {
		if err := os.WriteFile(filepath.Join(dir, blobsDir, "sha256."+digest.FromString(blob).Encoded()), []byte(blob),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFolderArchiveReadsOnlyRegularFilesInsideIt(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, d := folderWith(t, emptyIndex), digest.FromString("secret")
	name := filepath.Join(dir, blobsDir, "sha256."+d.Encoded())
	if err := os.Symlink(outside, name); err != nil {
		t.Fatal(err)
	}
	a := open(t, dir)
	if _, err := a.Target("r").Fetch(t.Context(), ocispec.Descriptor{Digest: d}); err == nil ||
		!strings.Contains(err.Error(), "escapes") {
		t.Errorf("link out of the archive: got %v", err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Target("r").Exists(t.Context(), ocispec.Descriptor{Digest: d}); err == nil ||
		!strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("pipe instead of a blob: got %v", err)
	}
	for _, d := range []digest.Digest{"", "sha256:../../x", "md5:00", "sha384:00"} {
		if _, err := a.Target("r").Fetch(t.Context(), ocispec.Descriptor{Digest: d}); err == nil {
			t.Errorf("Fetch of invalid digest %q: got no error", d)
		}
		if _, err := a.Target("r").Exists(t.Context(), ocispec.Descriptor{Digest: d}); err == nil {
			t.Errorf("Exists of invalid digest %q: got no error", d)
		}
	}
	if _, err := Open(name); err == nil || !strings.Contains(err.Error(), "must be a folder or file") {
		t.Errorf("pipe instead of an archive: got error %v, want a refusal", err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), indexFile+" is missing") {
		t.Errorf("empty folder: got error %v, want a missing index", err)
	}
}

func TestMediaTypeComesFromTheManifest(t *testing.T) {
	const (
		plain = `{"schemaVersion":2,"config":{},"layers":[]}`
		list  = `{"schemaVersion":2,"manifests":[]}`
	)
	for name, c := range map[string]struct{ manifest, inIndex, want, wrong string }{
		"manifest without a media type":   {plain, "", ocispec.MediaTypeImageManifest, ""},
		"index without a media type":      {list, "", ocispec.MediaTypeImageIndex, ""},
		"media type only in the index":    {list, ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageIndex, ""},
		"media type only in manifest":     {`{"mediaType":"` + dockerManifest + `","config":{}}`, "", dockerManifest, ""},
		"media type in the index differs": {plain, ocispec.MediaTypeImageIndex, "", "in the index and"},
		"media type does not match the fields": {
			`{"mediaType":"` + ocispec.MediaTypeImageIndex + `","config":{}}`, "", "",
			"does not match the fields of the manifest",
		},
		"manifest and index at once": {
			`{"config":{},"manifests":[]}`, "", "", "not an image manifest or image index",
		},
		"manifest that is not JSON": {"content", "", "", "invalid character"},
		"duplicate key":             {`{"config":{},"config":{}}`, "", "", "duplicate field"},
	} {
		t.Run(name, func(t *testing.T) {
			index := fmt.Sprintf(
				`{"schemaVersion":1,"artifacts":[{"repository":"r","tag":"1","digest":%q,"mediaType":%q}]}`,
				digest.FromString(c.manifest), c.inIndex)
			got, err := open(t, folderWith(t, index, c.manifest)).Target("r").Resolve(t.Context(), "1")
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), "r:1 in ") {
					t.Errorf("got %v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil || got.MediaType != c.want || got.Size != int64(len(c.manifest)) {
				t.Errorf("got descriptor %+v and error %v", got, err)
			}
		})
	}
}

func TestMissingManifestInIndexIsNotANotFoundError(t *testing.T) {
	d := digest.FromString("gone")
	a := open(t,
		folderWith(t, fmt.Sprintf(`{"schemaVersion":1,"artifacts":[{"repository":"r","tag":"1","digest":%q}]}`, d)))
	if _, err := a.Target("r").Resolve(t.Context(), "1"); err == nil || errors.Is(err, errdef.ErrNotFound) ||
		!strings.Contains(err.Error(), "not in the archive") {
		t.Errorf("Resolve: got error %v, want one that differs from not found", err)
	}
	if err := a.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "not in the archive") {
		t.Errorf("Verify: got error %v, want a missing manifest", err)
	}
	for _, reference := range []string{"2", digest.FromString("other").String(), ""} {
		if _, err := a.Target("r").Resolve(t.Context(), reference); !errors.Is(err, errdef.ErrNotFound) {
			t.Errorf("reference %q: got %v, want not found", reference, err)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":1,"artifacts":[{"repository":"r","tag":"1","digest":"sha256:00"}]}`))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = decodeIndex(data) })
}

// FuzzTar builds the tar header from fuzzed fields, because random bytes almost never have a valid checksum.
func FuzzTar(f *testing.F) {
	f.Add("blobs/sha256."+digest.FromString("x").Encoded(), byte(tar.TypeReg), int64(1), []byte("x"))
	f.Add("x", byte(tar.TypeXHeader), int64(30), []byte("30 path=blobs/sha256.00000000\n"))
	f.Fuzz(func(t *testing.T, name string, typeflag byte, size int64, rest []byte) {
		header := make([]byte, 512)
		copy(header[:100], name)
		copy(header[100:],
			fmt.Sprintf("0000644\x000000000\x000000000\x00%011o\x0000000000000\x00        ", uint64(size)&(1<<33-1)))
		header[156] = typeflag
		copy(header[257:], "ustar\x0000")
		sum := 0
		for _, b := range header {
			sum += int(b)
		}
		copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
		data := append(header, rest...)
		data = append(data, make([]byte, 1024+(512-len(data)%512)%512)...)
		data = append(data[:len(data)-1024], pack(t, file(indexFile, emptyIndex))...)
		tarball, err := scan(io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))), 100)
		if err != nil {
			return
		}
		for d, at := range tarball.found {
			if at.offset < 0 || at.size < 0 || at.offset+at.size > int64(len(data)) {
				t.Errorf("blob %s at %+v is outside of the file of %d bytes", d, at, len(data))
			}
			if _, err := blobName(d); err != nil {
				t.Error(err)
			}
			_ = verifyBlob(tarball, "", d)
		}
	})
}
