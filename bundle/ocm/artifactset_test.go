package ocm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

const manifestType = "application/vnd.oci.image.manifest.v1+json"

var (
	setIndex = member{
		"index.json", `{"schemaVersion":2,"manifests":[{"mediaType":"` + manifestType + `","digest":"` + hello +
			`","size":5}]}`, tar.TypeReg,
	}
	setMain = member{"blobs/" + strings.Replace(hello, ":", ".", 1), "hello", tar.TypeReg}
)

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	if _, err := writer.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestValidArtifactSetsAreOpened(t *testing.T) {
	file := func(name, content string) member { return member{name, content, tar.TypeReg} }
	other := digest.FromString("other").String()
	two := `{"manifests":[{"digest":"` + other + `"},{"digest":"` + hello + `"}],"annotations":{"software.ocm/main":"` +
		hello + `"}}`
	for name, data := range map[string][]byte{
		"tar": {},
		"tar with folders": archive(t, member{"./", "", tar.TypeDir}, member{"blobs/", "", tar.TypeDir},
			file("oci-layout", "{}"), setIndex, setMain),
		"set with an artifact descriptor": archive(t, file("artifact-descriptor.json", setIndex.content), setMain),
		"OCI layout": archive(t, setIndex,
			file("./blobs/"+strings.Replace(hello, ":", "/", 1), "hello")),
		"two manifests with a main manifest": archive(t, file("index.json", two), setMain,
			file("blobs/"+strings.Replace(other, ":", ".", 1), "other")),
		"blob with a sha512 digest": archive(t, setIndex, setMain,
			file("blobs/"+strings.Replace(digest.SHA512.FromString("x").String(), ":", ".", 1), "x")),
	} {
		if len(data) == 0 {
			data = archive(t, setIndex, setMain)
		}
		for form, data := range map[string][]byte{"": data, ", compressed": zipped(t, data)} {
			t.Run(name+form, func(t *testing.T) {
				set, err := OpenArtifactSet(data)
				if err != nil {
					t.Fatal(err)
				}
				if blob, err := set.Blob(set.Main.Digest); err != nil || string(blob) != "hello" {
					t.Errorf("got main blob %q, error %v, want hello", blob, err)
				}
			})
		}
	}
}

func TestInvalidArtifactSetsAreRefused(t *testing.T) {
	file := func(name, content string) member { return member{name, content, tar.TypeReg} }
	good := archive(t, setIndex, setMain)
	many := make([]member, maxSetEntries+1)
	for i := range many {
		many[i] = file(fmt.Sprintf("blobs/sha256.%064x", i), "")
	}
	entry := `{"digest":"` + hello + `"}`
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty input":   {nil, "not a tar archive"},
		"zeros":         {bytes.Repeat([]byte{0}, 1024), "not a tar archive"},
		"text":          {[]byte("hello"), "artifact set: "},
		"missing index": {archive(t, setMain), "index.json is missing"},
		"both index.json and artifact-descriptor.json": {
			archive(t, setIndex, file("artifact-descriptor.json", setIndex.content)), "must not both exist",
		},
		"index that is not JSON": {archive(t, file("index.json", "[")), "index: "},
		"index larger than the limit": {
			archive(t, file("index.json", strings.Repeat(" ", maxIndexBytes+1))), "index is larger than 1048576 bytes",
		},
		"duplicate file": {archive(t, setIndex, setMain, setMain), "appears twice"},
		"duplicate file with ./ in its name": {
			archive(t, setIndex, setMain, file("./"+setMain.name, "x")), "appears twice",
		},
		"blob in two places": {
			archive(t, setIndex, setMain, file("blobs/"+strings.Replace(hello, ":", "/", 1), "x")),
			"blob " + hello + " appears twice",
		},
		"symbolic link": {
			archive(t, setIndex, member{"blobs/x", "", tar.TypeSymlink}), "not a regular file",
		},
		"hard link":               {archive(t, setIndex, member{"blobs/x", "", tar.TypeLink}), "not a regular file"},
		"device":                  {archive(t, setIndex, member{"blobs/x", "", tar.TypeChar}), "not a regular file"},
		"name with ..":            {archive(t, setIndex, file("blobs/../x", "x")), "unexpected member"},
		"absolute name":           {archive(t, setIndex, file("/index.json", "x")), "unexpected member"},
		"folder named ..":         {archive(t, setIndex, member{"../", "", tar.TypeDir}), "unexpected folder"},
		"blob with an md5 digest": {archive(t, setIndex, file("blobs/md5.00", "x")), "unexpected member"},
		"blob with an upper-case digest": {
			archive(t, setIndex, file(strings.ToUpper(setMain.name), "x")), "unexpected member",
		},
		"blob with a short digest": {archive(t, setIndex, file("blobs/sha256.00", "x")), "unexpected member"},
		"index without manifests":  {archive(t, file("index.json", `{"manifests":[]}`)), "0 manifests"},
		"two manifests without a main manifest": {
			archive(t, file("index.json", `{"manifests":[`+entry+`,`+entry+`]}`)), "2 manifests",
		},
		"missing main manifest": {
			archive(t, file("index.json", `{"manifests":[`+entry+`],"annotations":{"software.ocm/main":"x"}}`)),
			"0 manifests",
		},
		"main manifest with an invalid digest": {
			archive(t, file("index.json", `{"manifests":[{"digest":"sha256:00"}]}`)), "invalid",
		},
		"more files than the limit":            {archive(t, many...), "more than 2000 entries"},
		"truncated tar":                        {good[:600], "artifact set: "},
		"truncated gzip stream":                {zipped(t, good)[:100], "gzip: "},
		"invalid gzip stream":                  {[]byte{0x1f, 0x8b, 0}, "gzip: "},
		"second gzip stream":                   {append(zipped(t, good), zipped(t, nil)...), "bytes after the end"},
		"data after the gzip stream":           {append(zipped(t, good), 'x'), "bytes after the end"},
		"decompression bomb":                   {zipped(t, make([]byte, 4<<20)), "unpack to more than 1048576"},
		"sparse files larger than the archive": {sparse(t, 100), "larger than the archive"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := OpenArtifactSet(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func sparse(t *testing.T, count int) []byte {
	t.Helper()
	var buffer bytes.Buffer
	for i := range count {
		writer := tar.NewWriter(&buffer)
		holes := fmt.Sprintf("%-512s", "1\n900000\n0\n")
		holes = strings.ReplaceAll(holes, " ", "\x00")
		header := &tar.Header{
			Name: "GNUSparseFile.0/x", Size: int64(len(holes)), Mode: 0o644, Typeflag: tar.TypeReg,
			Format: tar.FormatPAX,
			PAXRecords: map[string]string{
				"GNX.sparse.major": "1", "GNX.sparse.minor": "0",
				"GNX.sparse.name": fmt.Sprintf("blobs/sha256.%064x", i), "GNX.sparse.realsize": "900000",
			},
		}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(holes)); err != nil {
			t.Fatal(err)
		}
		if err := writer.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	// The standard library does not write sparse files.
	return bytes.ReplaceAll(buffer.Bytes(), []byte(" GNX.sparse"), []byte(" GNU.sparse"))
}

func TestArtifactSetReturnsOnlyBlobsThatMatchTheirNames(t *testing.T) {
	set, err := OpenArtifactSet(archive(t, setIndex, member{setMain.name, "hallo", tar.TypeReg}))
	if err != nil {
		t.Fatal(err)
	}
	for d, want := range map[digest.Digest]string{hello: "has digest", "sha256:00": "has no blob", "": "has no blob"} {
		if _, err := set.Blob(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", d, err, want)
		}
	}
}

func TestContentIsComparedWithItsDigest(t *testing.T) {
	set := archive(t, setIndex, setMain)
	lying := archive(t, setIndex, member{setMain.name, "hallo", tar.TypeReg})
	blob := func(hash, value string) *Digest { return &Digest{hash, genericBlobDigest, value} }
	hex := strings.TrimPrefix(hello, "sha256:")
	long := digest.SHA512.FromString("hello").Encoded()
	for name, c := range map[string]struct {
		digest  *Digest
		content []byte
		is      error  // nil accepts any error
		want    string // part of the error; empty for success
	}{
		"blob":                           {blob("SHA-256", hex), []byte("hello"), nil, ""},
		"blob with an upper-case digest": {blob("SHA-256", strings.ToUpper(hex)), []byte("hello"), nil, ""},
		"blob with the old name of its hash algorithm": {blob("sha256", hex), []byte("hello"), nil, ""},
		"blob with a SHA-512 digest":                   {blob("SHA-512", long), []byte("hello"), nil, ""},
		"unrelated blob": {
			blob("SHA-256", hex), []byte("hallo"), ErrMismatch, `resource "raw": content does not match`,
		},
		"blob with a digest of the wrong length": {blob("SHA-512", hex), []byte("hello"), ErrMismatch, ""},
		"blob with an unknown hash algorithm": {
			blob("MD5", hex), []byte("hello"), nil, `digest.hashAlgorithm: hash algorithm "MD5"`,
		},
		"unknown normalization": {
			&Digest{"SHA-256", "other/v1", hex}, []byte("hello"), nil, `normalisationAlgorithm: "other/v1"`,
		},
		"missing digest": {nil, []byte("hello"), ErrNotCovered, ""},
		"empty digest":   {&Digest{}, []byte("hello"), ErrNotCovered, ""},
		"excluded content": {
			&Digest{excludedNoAlgorithm, excluded, excludedNoAlgorithm}, []byte("hello"), ErrNotCovered, "",
		},
		"excluded content with a digest": {&Digest{"SHA-256", excluded, hex}, []byte("hello"), ErrNotCovered, ""},
		"artifact set":                   {&Digest{"SHA-256", ociArtifactDigest, hex}, set, nil, ""},
		"artifact set with the old names of the algorithms": {
			&Digest{"sha256", ociArtefactDigest, hex}, zipped(t, set), nil, "",
		},
		"digest of another artifact set": {
			&Digest{"SHA-256", ociArtifactDigest, strings.Repeat("0", 64)}, set, ErrMismatch, "",
		},
		"artifact set with a changed blob": {
			&Digest{"SHA-256", ociArtifactDigest, hex}, lying, ErrMismatch, "has digest",
		},
		"artifact set without its main manifest": {
			&Digest{"SHA-256", ociArtifactDigest, hex}, archive(t, setIndex), ErrMismatch, "has no blob",
		},
		"artifact set with another hash algorithm": {
			&Digest{"SHA-512", ociArtifactDigest, hex}, set, nil, "artifact has a sha256 digest",
		},
		"artifact set with an unknown hash algorithm": {
			&Digest{"s-h-a256", ociArtifactDigest, hex}, set, nil, "digest.hashAlgorithm",
		},
		"content that is not an artifact set": {
			&Digest{"SHA-256", ociArtifactDigest, hex}, []byte("hello"), nil, "artifact set: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckContent(Resource{Element: Element{Name: "raw"}, Digest: c.digest}, c.content)
			switch {
			case c.is == nil && c.want == "":
				if err != nil {
					t.Error(err)
				}
			case err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want):
				t.Errorf("got %v, want %q and %v", err, c.want, c.is)
			}
		})
	}
}

func TestArtifactDigestIsComparedWithTheManifest(t *testing.T) {
	hex := strings.TrimPrefix(hello, "sha256:")
	image := Resource{Element: Element{Name: "operator"}, Digest: &Digest{"SHA-256", ociArtifactDigest, hex}}
	if err := CheckArtifact(image, hello); err != nil {
		t.Error(err)
	}
	for d, want := range map[digest.Digest]string{
		digest.FromString("x"):        ErrMismatch.Error(),
		digest.SHA512.FromString("x"): "artifact has a sha512 digest",
		"sha256:00":                   `manifest "sha256:00"`,
		"":                            `manifest ""`,
	} {
		if err := CheckArtifact(image, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", d, err, want)
		}
	}
	if err := CheckArtifact(Resource{}, hello); !errors.Is(err, ErrNotCovered) {
		t.Errorf("without a digest: got error %v, want ErrNotCovered", err)
	}
	image.Digest.NormalisationAlgorithm = genericBlobDigest
	if err := CheckArtifact(image, hello); err == nil ||
		!strings.Contains(err.Error(), "is not an algorithm for OCI artifacts") {
		t.Errorf("digest of a blob: got error %v, want an unsuitable algorithm", err)
	}
}

func FuzzOpenArtifactSet(f *testing.F) {
	f.Add(archive(f, setIndex, setMain))
	f.Add(zipped(f, archive(f, setIndex, setMain)))
	f.Add(archive(f, setIndex, member{"blobs/x", "", tar.TypeSymlink}))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := OpenArtifactSet(data)
		if err != nil {
			return
		}
		if err := set.Main.Digest.Validate(); err != nil {
			t.Error(err)
		}
		if len(set.blobs) > maxSetEntries {
			t.Errorf("got %d blobs, want at most %d", len(set.blobs), maxSetEntries)
		}
		for d := range set.blobs {
			if blob, err := set.Blob(d); err == nil && d.Algorithm().FromBytes(blob) != d {
				t.Errorf("got blob %q for %s, want content with this digest", blob, d)
			}
		}
	})
}
