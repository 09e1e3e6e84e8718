package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
)

func TestDryRunImplementsStore(t *testing.T) {
	storetest.Conform(t, store.DryRun(store.NewLayout(filepath.Join(t.TempDir(), "nowhere"))))
	storetest.Conform(t, store.DryRun(store.NewMemory()))
}

func TestDryRunDoesNotChangeTheStore(t *testing.T) {
	ctx, base := t.Context(), store.NewMemory()
	manifest := func(text string) bundle.Blob {
		blob, err := bundle.NewManifest(ocispec.Manifest{
			ArtifactType: "text/" + text, Config: ocispec.DescriptorEmptyJSON,
		})
		if err != nil {
			t.Fatal(err)
		}
		return blob
	}
	repository := func(s store.Store) store.ReadWriter {
		opened, err := s.Repository(ctx, "runtimes/berlin")
		if err != nil {
			t.Fatal(err)
		}
		return opened
	}
	old, next := manifest("old"), manifest("next")
	if err := store.PushManifest(ctx, repository(base), old, bundle.TagDesired); err != nil {
		t.Fatal(err)
	}
	dry := store.DryRun(base)
	if found, err := store.Head(ctx, repository(dry), bundle.TagDesired); err != nil || found != old.Descriptor.Digest {
		t.Errorf("before the push: got %s, error %v from the dry run, want the old bundle", found, err)
	}
	if err := store.PushManifest(ctx, repository(dry), next, bundle.TagDesired); err != nil {
		t.Fatal(err)
	}
	if found, err := store.Head(ctx, repository(dry), bundle.TagDesired); err != nil ||
		found != next.Descriptor.Digest {
		t.Errorf("after the push: got %s, error %v from the dry run, want the new bundle", found, err)
	}
	if err := repository(dry).Tag(ctx, old.Descriptor, "kept"); err != nil {
		t.Errorf("tag an existing manifest: got error %v, want no error", err)
	}
	if got, err := store.Fetch(ctx, repository(dry), "kept"); err != nil || !bytes.Equal(got.Bytes, old.Bytes) {
		t.Errorf("tagged manifest: got %+v, error %v, want the old bundle", got, err)
	}
	if found, err := store.Head(ctx, repository(base), bundle.TagDesired); err != nil ||
		found != old.Descriptor.Digest {
		t.Errorf("got %s, error %v from the store itself, want no change", found, err)
	}
	if _, err := store.Head(ctx, repository(base), "kept"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got error %v from the store itself, want ErrNotFound for the tag", err)
	}
	dir := filepath.Join(t.TempDir(), "layout")
	if err := store.PushManifest(ctx, repository(store.DryRun(store.NewLayout(dir))), next,
		bundle.TagDesired); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v, want no new folder", err)
	}
}
