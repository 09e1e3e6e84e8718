package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestUnreadableManifestIsNotReportedAsMissing(t *testing.T) {
	hex := digest.FromString("bundle").Encoded()
	for name, damage := range map[string]func(layoutRepository) error{
		"digest without an algorithm": func(r layoutRepository) error {
			return os.WriteFile(r.index.path(), []byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",
				"digest":"sha256*`+hex+`","size":7,"annotations":{"org.opencontainers.image.ref.name":"runtimes/berlin:desired"}}]}`), 0o600)
		},
		"blob that is a symbolic link to itself": func(r layoutRepository) error {
			path := r.blob(manifestBlob(`{"n":1}`).Descriptor)
			return errors.Join(os.Remove(path), os.Symlink(path, path))
		},
	} {
		dir := t.TempDir()
		before, err := openLayout(newLayoutIndex(dir), "runtimes/berlin")
		if err != nil {
			t.Fatal(err)
		}
		if err := PushManifest(t.Context(), before, manifestBlob(`{"n":1}`), "desired"); err != nil {
			t.Fatal(err)
		}
		if err := damage(before); err != nil {
			t.Fatal(err)
		}
		after, err := openLayout(newLayoutIndex(dir), "runtimes/berlin")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := after.Resolve(t.Context(), "desired"); err == nil || errors.Is(err, ErrNotFound) ||
			!strings.Contains(err.Error(), "as runtimes/berlin:desired") {
			t.Errorf("%s: got error %v, want an error that names the tag and is not ErrNotFound", name, err)
		}
	}
}

func TestRemovingADamagedBlobKeepsItsReplacement(t *testing.T) {
	blob := bundle.NewBlob("application/x-tar", []byte("content"))
	long := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		damaged string
		written time.Time
	}{
		"damaged file of the same size":     {"CONTENT", time.Now()},
		"truncated file with the same time": {"con", long},
	} {
		// Use a new index, because an index caches which files it has verified.
		repository, err := openLayout(newLayoutIndex(t.TempDir()), "content")
		if err != nil {
			t.Fatal(err)
		}
		path := repository.blob(blob.Descriptor)
		if err := errors.Join(os.WriteFile(path, []byte(c.damaged), 0o600), os.Chtimes(path, long, long)); err != nil {
			t.Fatal(err)
		}
		whole, damaged, err := repository.index.blobs.inspect(blob.Descriptor)
		if whole || damaged == nil || err != nil {
			t.Fatalf("%s: got whole %t, error %v, want a damaged file", name, whole, err)
		}
		if err := errors.Join(os.WriteFile(path, blob.Bytes, 0o600),
			os.Chtimes(path, c.written, c.written)); err != nil {
			t.Fatal(err)
		}
		if err := repository.index.blobs.remove(blob.Descriptor.Digest, damaged); err != nil {
			t.Fatal(err)
		}
		if there, err := repository.Exists(t.Context(), blob.Descriptor); err != nil || !there {
			t.Errorf("%s: got exists %t, error %v, want the new file", name, there, err)
		}
	}
}

func TestOversizedOrIrregularLayoutFilesAreRefused(t *testing.T) {
	for _, file := range []string{ocispec.ImageLayoutFile, ocispec.ImageIndexFile} {
		for want, damage := range map[string]func(path string) error{
			// Truncate creates a sparse file.
			"larger than": func(path string) error { return os.Truncate(path, maxIndexBytes+1) },
			"is not a regular file": func(path string) error {
				return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
			},
		} {
			dir := t.TempDir()
			pushNumbered(t, NewLayout(dir), "berlin", 1)
			if err := damage(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			reading, err := NewLayout(dir).Reading(t.Context(), "runtimes/berlin")
			if err == nil {
				_, err = reading.Resolve(t.Context(), "x")
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("read of damaged %s: got error %v, want an error with %q", file, err, want)
			}
			writing, err := NewLayout(dir).Repository(t.Context(), "runtimes/berlin")
			if err == nil {
				_, err = writing.Resolve(t.Context(), "x")
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("write with damaged %s: got error %v, want an error with %q", file, err, want)
			}
		}
	}
}

func TestFileThatGrowsDuringReadIsRefused(t *testing.T) {
	if _, _, err := readRegular("/proc/self/status", 10); err == nil ||
		!strings.Contains(err.Error(), "larger than 10 bytes") {
		t.Errorf("got error %v, want a size limit", err)
	}
}
