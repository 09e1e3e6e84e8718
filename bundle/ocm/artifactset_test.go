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

func TestArtifactSetsAreOpened(t *testing.T) {
	file := func(name, content string) member { return member{name, content, tar.TypeReg} }
	other := digest.FromString("other").String()
	two := `{"manifests":[{"digest":"` + other + `"},{"digest":"` + hello + `"}],"annotations":{"software.ocm/main":"` +
		hello + `"}}`
	for name, data := range map[string][]byte{
		"a tar": {},
		"a tar with folders": archive(t, member{"./", "", tar.TypeDir}, member{"blobs/", "", tar.TypeDir},
			file("oci-layout", "{}"), setIndex, setMain),
		"an older set":  archive(t, file("artifact-descriptor.json", setIndex.content), setMain),
		"an OCI layout": archive(t, setIndex, file("./blobs/"+strings.Replace(hello, ":", "/", 1), "hello")),
		"the main one of two": archive(t, file("index.json", two), setMain,
			file("blobs/"+strings.Replace(other, ":", ".", 1), "other")),
		"a blob by a long one": archive(t, setIndex, setMain,
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
					t.Errorf("got %q, %v", blob, err)
				}
			})
		}
	}
}

func TestHostileArtifactSetsAreRefused(t *testing.T) {
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
		"nothing":  {nil, "is not a tar"},
		"zeros":    {bytes.Repeat([]byte{0}, 1024), "is not a tar"},
		"a text":   {[]byte("hello"), "artifact set: "},
		"no index": {archive(t, setMain), "has no index.json"},
		"two kinds of index": {
			archive(t, setIndex, file("artifact-descriptor.json", setIndex.content)), "want one of them",
		},
		"an index that is none": {archive(t, file("index.json", "[")), "index: "},
		"an index without an end": {
			archive(t, file("index.json", strings.Repeat(" ", maxIndexBytes+1))), "index: larger than 1048576 bytes",
		},
		"a file twice":             {archive(t, setIndex, setMain, setMain), "appears twice"},
		"a file twice by its name": {archive(t, setIndex, setMain, file("./"+setMain.name, "x")), "appears twice"},
		"a blob in two places": {
			archive(t, setIndex, setMain, file("blobs/"+strings.Replace(hello, ":", "/", 1), "x")),
			"blob " + hello + " appears twice",
		},
		"a link": {
			archive(t, setIndex, member{"blobs/x", "", tar.TypeSymlink}), "not a regular file",
		},
		"a hard link":          {archive(t, setIndex, member{"blobs/x", "", tar.TypeLink}), "not a regular file"},
		"a device":             {archive(t, setIndex, member{"blobs/x", "", tar.TypeChar}), "not a regular file"},
		"a name that climbs":   {archive(t, setIndex, file("blobs/../x", "x")), "unexpected member"},
		"a name from the root": {archive(t, setIndex, file("/index.json", "x")), "unexpected member"},
		"a folder that climbs": {archive(t, setIndex, member{"../", "", tar.TypeDir}), "unexpected folder"},
		"a blob of md5":        {archive(t, setIndex, file("blobs/md5.00", "x")), "unexpected member"},
		"a blob in capitals": {
			archive(t, setIndex, file(strings.ToUpper(setMain.name), "x")), "unexpected member",
		},
		"a blob of a short digest": {archive(t, setIndex, file("blobs/sha256.00", "x")), "unexpected member"},
		"no manifest":              {archive(t, file("index.json", `{"manifests":[]}`)), "0 manifests"},
		"two, and no main one": {
			archive(t, file("index.json", `{"manifests":[`+entry+`,`+entry+`]}`)), "2 manifests",
		},
		"a main one that is missing": {
			archive(t, file("index.json", `{"manifests":[`+entry+`],"annotations":{"software.ocm/main":"x"}}`)),
			"0 manifests",
		},
		"a main one that is none": {
			archive(t, file("index.json", `{"manifests":[{"digest":"sha256:00"}]}`)), "invalid",
		},
		"too many files":             {archive(t, many...), "more than 2000 entries"},
		"cut off":                    {good[:600], "artifact set: "},
		"cut off, compressed":        {zipped(t, good)[:100], "gzip: "},
		"no gzip after all":          {[]byte{0x1f, 0x8b, 0}, "gzip: "},
		"a second stream":            {append(zipped(t, good), zipped(t, nil)...), "bytes follow its end"},
		"something after the stream": {append(zipped(t, good), 'x'), "bytes follow its end"},
		"a bomb":                     {zipped(t, make([]byte, 4<<20)), "unpack to more than 1048576"},
		"many sparse files":          {sparse(t, 100), "longer than their archive"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := OpenArtifactSet(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// sparse returns sparse files of 9 kilobytes each that take 4 in the archive (PAX, GNU sparse format 1.0).
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
		is      error  // nil for any
		want    string // of the error; empty for success
	}{
		"a blob":                       {blob("SHA-256", hex), []byte("hello"), nil, ""},
		"a blob, in capitals":          {blob("SHA-256", strings.ToUpper(hex)), []byte("hello"), nil, ""},
		"a blob, as it was spelt once": {blob("sha256", hex), []byte("hello"), nil, ""},
		"a blob by a longer hash":      {blob("SHA-512", long), []byte("hello"), nil, ""},
		"another blob": {
			blob("SHA-256", hex), []byte("hallo"), ErrDiffers, `resource "raw": content does not match`,
		},
		"a blob by a hash of other width": {blob("SHA-512", hex), []byte("hello"), ErrDiffers, ""},
		"a blob by an unknown hash": {
			blob("MD5", hex), []byte("hello"), nil, `digest.hashAlgorithm: hash algorithm "MD5"`,
		},
		"an unknown way": {
			&Digest{"SHA-256", "other/v1", hex}, []byte("hello"), nil, `normalisationAlgorithm: "other/v1"`,
		},
		"no digest":       {nil, []byte("hello"), ErrNotCovered, ""},
		"an empty digest": {&Digest{}, []byte("hello"), ErrNotCovered, ""},
		"excluded": {
			&Digest{excludedNoAlgorithm, excluded, excludedNoAlgorithm}, []byte("hello"), ErrNotCovered, "",
		},
		"excluded by half":            {&Digest{"SHA-256", excluded, hex}, []byte("hello"), ErrNotCovered, ""},
		"a set":                       {&Digest{"SHA-256", ociArtifactDigest, hex}, set, nil, ""},
		"a set, as it was spelt once": {&Digest{"sha256", ociArtefactDigest, hex}, zipped(t, set), nil, ""},
		"another set": {
			&Digest{"SHA-256", ociArtifactDigest, strings.Repeat("0", 64)}, set, ErrDiffers, "",
		},
		"a set that lies": {
			&Digest{"SHA-256", ociArtifactDigest, hex}, lying, ErrDiffers, "has digest",
		},
		"a set without its main one": {
			&Digest{"SHA-256", ociArtifactDigest, hex}, archive(t, setIndex), ErrDiffers, "has no blob",
		},
		"a set by another hash": {
			&Digest{"SHA-512", ociArtifactDigest, hex}, set, nil, "digest is by sha256",
		},
		"a set by an unknown hash": {
			&Digest{"s-h-a256", ociArtifactDigest, hex}, set, nil, "digest.hashAlgorithm",
		},
		"a set that is none": {
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

func TestArtifactDigestIsItsManifests(t *testing.T) {
	hex := strings.TrimPrefix(hello, "sha256:")
	image := Resource{Element: Element{Name: "operator"}, Digest: &Digest{"SHA-256", ociArtifactDigest, hex}}
	if err := CheckArtifact(image, hello); err != nil {
		t.Error(err)
	}
	for d, want := range map[digest.Digest]string{
		digest.FromString("x"):        ErrDiffers.Error(),
		digest.SHA512.FromString("x"): "digest is by sha512",
		"sha256:00":                   `manifest "sha256:00"`,
		"":                            `manifest ""`,
	} {
		if err := CheckArtifact(image, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", d, err, want)
		}
	}
	if err := CheckArtifact(Resource{}, hello); !errors.Is(err, ErrNotCovered) {
		t.Errorf("without a digest: %v", err)
	}
	image.Digest.NormalisationAlgorithm = genericBlobDigest
	if err := CheckArtifact(image, hello); err == nil ||
		!strings.Contains(err.Error(), "is not the algorithm of an OCI artifact") {
		t.Errorf("a blob's digest: %v", err)
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
			t.Errorf("gave %d blobs", len(set.blobs))
		}
		for d := range set.blobs {
			if blob, err := set.Blob(d); err == nil && d.Algorithm().FromBytes(blob) != d {
				t.Errorf("gave %q for %s", blob, d)
			}
		}
	})
}
