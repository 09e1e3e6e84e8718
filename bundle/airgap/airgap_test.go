package airgap

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func quiet(int64) {}

func sampleLayout(blobs int) Layout {
	var layout Layout
	random := rand.New(rand.NewPCG(1, 2))
	for i := range blobs {
		data := make([]byte, 1+random.IntN(5000))
		for n := range data {
			data[n] = byte(random.Uint32())
		}
		item := InMemory(bundle.NewBlob("application/octet-stream", data))
		layout.Items = append(layout.Items, item)
		layout.References = append(layout.References, Reference{
			fmt.Sprintf("runtimes/r-%d:desired", i), item.Descriptor,
		})
	}
	return layout
}

func written(t *testing.T, path string, layout Layout, packing Packing) ([]string, []byte) {
	t.Helper()
	names, err := Write(t.Context(), path, layout, packing, quiet)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return names, all
}

func TestLayoutBytesDoNotDependOnFileFormat(t *testing.T) {
	layout := sampleLayout(20)
	shuffled := Layout{slices.Clone(layout.References), slices.Clone(layout.Items)}
	slices.Reverse(shuffled.References)
	slices.Reverse(shuffled.Items)
	dir := t.TempDir()
	_, plain := written(t, filepath.Join(dir, "a"), layout, Packing{})
	if _, other := written(t, filepath.Join(dir, "b"), shuffled, Packing{}); !bytes.Equal(plain, other) {
		t.Error("blobs in another order: got other bytes, want the same bytes")
	}
	names, joined := written(t, filepath.Join(dir, "c"), layout, Packing{VolumeBytes: 7000})
	if len(names) != (len(plain)+6999)/7000 || !bytes.Equal(plain, joined) {
		t.Errorf("got %d volumes, want %d that equal the single file when joined", len(names), (len(plain)+6999)/7000)
	}
	for name, c := range map[string]struct {
		path    string
		packing Packing
	}{"plain": {"d", Packing{}}, "volumes": {"e", Packing{VolumeBytes: 4096}}, "zstd": {"f", Packing{Zstd: true}},
		"zstd file split into volumes": {"g", Packing{true, 9000}}} {
		t.Run(name, func(t *testing.T) {
			names, _ := written(t, filepath.Join(dir, c.path), layout, c.packing)
			file, err := Open(names, quiet)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if len(file.References()) != 20 {
				t.Errorf("got %d references, want 20", len(file.References()))
			}
			for _, r := range file.References() {
				data, err := content.FetchAll(t.Context(), file.Repository(""), r.Descriptor)
				if err != nil || digest.FromBytes(data) != r.Descriptor.Digest {
					t.Errorf("%s: got error %v, want content with its digest", r.Name, err)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(dir, c.path+"*.p*")); len(left) > 0 {
				t.Errorf("got remaining temporary files %v, want none", left)
			}
		})
	}
}

func TestInterruptedExportContinues(t *testing.T) {
	layout := sampleLayout(30)
	dir := t.TempDir()
	_, want := written(t, filepath.Join(dir, "whole"), layout, Packing{})
	path := filepath.Join(dir, "file")
	for stop := range 40 { // each run pushes a few more blobs, until one run completes
		opened, cut := 0, Layout{References: layout.References}
		for _, item := range layout.Items {
			open := item.Open
			item.Open = func(ctx context.Context) (io.ReadCloser, error) {
				if opened++; opened == 3 {
					body, err := open(ctx)
					return io.NopCloser(io.MultiReader(io.LimitReader(body, 1), broken{})), err
				}
				return open(ctx)
			}
			cut.Items = append(cut.Items, item)
		}
		_, err := Write(t.Context(), path, cut, Packing{}, quiet)
		if err == nil {
			if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
				t.Fatal("the continued export differs from an uninterrupted one")
			}
			if stop < 15 || stop > 25 { // each run adds two blobs and replaces damaged blobs
				t.Errorf("got %d runs, want 15 to 25", stop)
			}
			return
		}
		if _, err := os.Stat(path); err == nil {
			t.Fatal("an incomplete file has its final name")
		}
		if stop == 5 {
			damage(t, path+partial, 1<<12)
		}
	}
	t.Fatal("the export did not complete")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection lost") }

func damage(t *testing.T, path string, at int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	one := make([]byte, 1)
	if _, err := file.ReadAt(one, at); err != nil {
		t.Fatal(err)
	}
	one[0] ^= 1
	if _, err := file.WriteAt(one, at); err != nil {
		t.Fatal(err)
	}
}

func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, strings.NewReader(strings.Repeat("x", int(h.Size))), h.Size); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestInvalidAirGapFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	_, good := written(t, filepath.Join(dir, "good"), sampleLayout(5), Packing{})
	_, small := written(t, filepath.Join(dir, "zstd"), sampleLayout(5), Packing{Zstd: true})
	changed := slices.Clone(good)
	changed[len(changed)-trailerBytes-600] ^= 1
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"file truncated in a blob":   {good[:len(good)-trailerBytes-700], "cut off"},
		"file without an end marker": {good[:len(good)-trailerBytes], "the end is missing"},
		"truncated compressed file":  {small[:len(small)/2], "cut off"},
		"changed byte":               {changed, "changed or damaged"},
		"volumes in the wrong order": {slices.Concat(good[4096:], good[:4096]), "its volumes are in another order"},
		"data after the end": {
			append(slices.Clone(good), bytes.Repeat([]byte("x"), 512)...), "data follows",
		},
		"symbolic link": {
			tarOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "index.json", Linkname: "/etc/passwd"}),
			"must be a file or folder",
		},
		"hard link": {
			tarOf(t, tar.Header{Typeflag: tar.TypeLink, Name: "index.json", Linkname: "../x"}),
			"must be a file or folder",
		},
		"device": {
			tarOf(t, tar.Header{Typeflag: tar.TypeChar, Name: "blobs/sha256/x"}), "must be a file or folder",
		},
		"name with ..": {
			tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "blobs/sha256/../../../x", Size: 3}), "must be oci-layout",
		},
		"absolute path": {
			tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "/index.json", Size: 3}), "must be oci-layout",
		},
		"unexpected folder": {tarOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "etc/"}), "must be blobs/sha256"},
		"duplicate entry": {
			tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "oci-layout", Size: 1},
				tar.Header{Typeflag: tar.TypeReg, Name: "./oci-layout", Size: 1}), "duplicate entry",
		},
		"index larger than the limit": {
			tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "index.json", Size: maxIndexBytes + 1}), "at most",
		},
		"blob with a different digest": {
			tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: blobsPrefix + strings.Repeat("a", 64), Size: 3}),
			"changed or damaged",
		},
		"missing index": {
			tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "oci-layout", Size: 1}), "not an OCI layout",
		},
		"empty file": {nil, "the end is missing"},
		"entry shorter than its size": {
			slices.Concat(tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "oci-layout", Size: 5000})[:1024]),
			"is incomplete",
		},
		"index that is not JSON": {
			tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "index.json", Size: 5}), "index.json",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := Open([]string{path}, quiet)
			if err == nil {
				file.Close()
			}
			if refusal.Of(err) == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a refusal with %q", err, c.want)
			}
		})
	}
}

func TestVolumesAreSortedAndMissingVolumesAreReported(t *testing.T) {
	files := Files([]string{"b.002", "a.tar", "b.001", "c.001"})
	if fmt.Sprint(files) != "[{[b.001 b.002] <nil>} {[a.tar] <nil>} {[c.001] <nil>}]" {
		t.Errorf("got files %v, want two volumes of b, a.tar and one volume of c", files)
	}
	for _, paths := range [][]string{{"b.001", "b.003"}, {"b.002"}, {"b.001", "b.001"}} {
		files := Files(append(paths, "a.tar"))
		if err := files[0].Incomplete; err == nil || !strings.Contains(err.Error(), "is missing") {
			t.Errorf("%v: got error %v, want a missing volume", paths, err)
		}
		if files[1].Incomplete != nil {
			t.Errorf("%v: got error %v for a.tar, want no error", paths, files[1].Incomplete)
		}
	}
}

func TestParseSizeAcceptsCommonUnits(t *testing.T) {
	for text, want := range map[string]int64{"4G": 4 << 30, "700M": 700 << 20, "512": 512, "": 0, "G": 0, "-1M": 0,
		"9999999999G": 0} {
		if got, err := ParseSize(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %d, error %v, want %d", text, got, err, want)
		}
	}
}

func TestVolumesFromDifferentExportsAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.tar")
	names, _ := written(t, path, sampleLayout(8), Packing{VolumeBytes: 4096})
	if len(names) < 3 {
		t.Fatalf("got %d volumes, want at least 3", len(names))
	}
	_, err := Write(t.Context(), path, sampleLayout(1), Packing{VolumeBytes: 1 << 20}, quiet)
	if err == nil || !strings.Contains(err.Error(), path+".002 belongs to another export") {
		t.Errorf("got error %v, want an error about the volume of another export", err)
	}
	for _, name := range names[1:] {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	again, _ := written(t, path, sampleLayout(1), Packing{VolumeBytes: 1 << 20})
	if left, err := filepath.Glob(path + "*"); err != nil || len(again) != 1 || len(left) != 1 {
		t.Errorf("got files %v, error %v, want one file", left, err)
	}
}

func TestPipeInsteadOfAFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.tar")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open([]string{path}, quiet); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("got error %v, want an error about an irregular file", err)
	}
}
