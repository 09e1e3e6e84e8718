// Package storetest checks that all stores have the same behavior, and pushes bundles for tests.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// ShareDocuments writes a bundle's documents to the DocumentsRepository.
func ShareDocuments(ctx context.Context, place store.Store, documents bundle.Documents) error {
	_, err := store.EnsureDocuments(ctx, place, documents)
	return err
}

// PushBundle publishes a runtime's bundle. The DocumentsRepository must already contain the bundle's documents.
func PushBundle(
	ctx context.Context, place store.Store, runtime string, documents bundle.Documents, manifest bundle.Blob,
) error {
	nothingPresent := func(digest.Digest) bool { return false }
	if err := store.PlaceDocuments(ctx, place, runtime, documents, nothingPresent); err != nil {
		return err
	}
	return store.PushBundleManifest(ctx, place, runtime, manifest)
}

// Conform fails the test if the empty store s does not behave like the other stores.
func Conform(t *testing.T, s store.Store) {
	t.Helper()
	t.Run("missing content is not found", func(t *testing.T) { missing(t, s) })
	t.Run("newest bundle has the tag, older bundles keep their digests", func(t *testing.T) { bundles(t, s) })
	t.Run("report is read unchanged", func(t *testing.T) { report(t, s) })
	t.Run("roots of trust are followed and never replaced", func(t *testing.T) { roots(t, s) })
	t.Run("content can be read", func(t *testing.T) { content(t, s) })
	t.Run("Holds recognizes repositories of the store", func(t *testing.T) {
		if !s.Holds(s.Name(bundle.ContentRepository)) || !s.Holds("./"+bundle.ContentRepository) ||
			s.Holds("elsewhere.example/content") {
			t.Errorf("Holds of %s: want true for its own repositories only", s)
		}
	})
}

func missing(t *testing.T, s store.Store) {
	repository, err := s.Repository(t.Context(), bundle.DesiredRepository(trusttest.Runtime))
	if err != nil {
		t.Fatal(err)
	}
	absent := digest.FromString("absent")
	for _, reference := range []string{bundle.TagDesired, absent.String()} {
		if _, err := store.Head(t.Context(), repository, reference); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("head of %s: got %v, want ErrNotFound", reference, err)
		}
		if _, err := store.Fetch(t.Context(), repository, reference); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("fetch of %s: got %v, want ErrNotFound", reference, err)
		}
	}
	blob := bundle.NewBlob("application/octet-stream", []byte("absent"))
	if _, err := store.FetchBlob(t.Context(), repository, blob.Descriptor, bundle.MaxLayerBytes); !errors.Is(err,
		store.ErrNotFound) {
		t.Errorf("fetch of a blob: got %v, want ErrNotFound", err)
	}
}

func bundles(t *testing.T, s store.Store) {
	ctx, signer := t.Context(), trusttest.NewSigner(t)
	documents, err := bundle.NewDocuments(bundle.DesiredState{CRDs: []string{"kedas.operator.kyma-project.io"}},
		bundle.Catalog{})
	if err != nil {
		t.Fatal(err)
	}
	if err := ShareDocuments(ctx, s, documents); err != nil {
		t.Fatal(err)
	}
	var pushed []bundle.Blob
	for sequence := range int64(2) {
		manifest, err := bundle.Compose(documents, bundle.Predicate{
			Audience: bundle.Audience{Runtime: trusttest.Runtime}, Epoch: 1, Sequence: 1 + sequence, RootVersion: 1,
			IssuedAt: trusttest.Now, ExpiresAt: trusttest.Now.AddDate(0, 0, 7),
		}, signer)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // a publisher that was interrupted pushes the same bundle again
			if err := PushBundle(ctx, s, trusttest.Runtime, documents, manifest); err != nil {
				t.Fatal(err)
			}
		}
		pushed = append(pushed, manifest)
	}
	repository, err := s.Reading(ctx, bundle.DesiredRepository(trusttest.Runtime))
	if err != nil {
		t.Fatal(err)
	}
	for reference, want := range map[string]bundle.Blob{bundle.TagDesired: pushed[1],
		pushed[0].Descriptor.Digest.String(): pushed[0]} {
		fetched, err := store.Fetch(ctx, repository, reference)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fetched.Bytes, want.Bytes) || fetched.Descriptor.Digest != want.Descriptor.Digest ||
			fetched.Descriptor.MediaType != want.Descriptor.MediaType {
			t.Errorf("%s: got %+v %s, want %+v", reference, fetched.Descriptor, fetched.Bytes, want.Descriptor)
		}
		verified, err := bundle.Verify(fetched,
			bundle.Trust{Root: trusttest.RootFor(t, signer), Runtime: trusttest.Runtime}, trusttest.Now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.FetchBundle(ctx, repository, verified); err != nil {
			t.Error(err)
		}
		verified.Config.Digest = digest.FromString("other")
		if _, err := store.FetchBundle(ctx, repository, verified); err == nil {
			t.Error("fetch of a bundle with a missing document: got no error, want an error")
		}
	}
}

func report(t *testing.T, s store.Store) {
	signer := trusttest.NewSigner(t)
	manifest, err := bundle.ComposeReport(bundle.Report{Runtime: trusttest.Runtime, Sequence: 1, Time: trusttest.Now,
		AgentVersion: "v1.0.0"}, signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.PushReport(t.Context(), s, trusttest.Runtime, manifest); err != nil {
		t.Fatal(err)
	}
	repository, err := s.Reading(t.Context(), bundle.ReportRepository(trusttest.Runtime))
	if err != nil {
		t.Fatal(err)
	}
	fetched, err := store.Fetch(t.Context(), repository, bundle.TagLatest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.VerifyReport(fetched,
		bundle.Reporter{Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, signer)}); err != nil {
		t.Error(err)
	}
}

func roots(t *testing.T, s store.Store) {
	maker := trusttest.NewRootFixture(t)
	first := maker.First()
	second, err := first.Next(maker.After(first, trusttest.NoChange, maker.Keys[:2]...))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.PushRoot(t.Context(), s, second); err != nil {
			t.Fatal(err)
		}
	}
	newest, refused, _, err := store.FollowRoot(t.Context(), s, first)
	if err != nil || refused != nil || newest.Version != 2 {
		t.Errorf("got root version %d, refusal %v, error %v, want version 2", newest.Version, refused, err)
	}
	other := trusttest.NewRootFixture(t)
	start := other.First()
	stranger, err := start.Next(other.After(start, trusttest.NoChange, other.Keys[:2]...))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.PushRoot(t.Context(), s, stranger); err == nil {
		t.Error("push of a different root with the same version: got no error, want an error")
	}
	if _, refused, _, err := store.FollowRoot(t.Context(), s, start); err != nil || refused == nil ||
		refused.Reason != refusal.BadRoot {
		t.Errorf("root of another fleet: got refusal %v, error %v, want a refusal", refused, err)
	}
}

func content(t *testing.T, s store.Store) {
	blob := bundle.NewBlob("application/x-tar", []byte("content"))
	for range 2 {
		if err := store.ShareBlob(t.Context(), s, blob); err != nil {
			t.Fatal(err)
		}
	}
	repository, err := s.Reading(t.Context(), bundle.ContentRepository)
	if err != nil {
		t.Fatal(err)
	}
	data, err := store.FetchBlob(t.Context(), repository, blob.Descriptor, bundle.MaxLayerBytes)
	if err != nil || !bytes.Equal(data, blob.Bytes) {
		t.Errorf("got content %q, error %v, want the shared blob", data, err)
	}
	if _, err := store.FetchBlob(t.Context(), repository, blob.Descriptor, 3); refusal.Of(err) == nil ||
		refusal.Of(err).Reason != refusal.TooLarge {
		t.Errorf("blob larger than the limit: got %v, want a refusal", err)
	}
}
