package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func nothingPresent(digest.Digest) bool { return false }

func layoutPlace(tb testing.TB) Store {
	tb.Helper()
	place, err := Open(LayoutScheme+filepath.Join(tb.TempDir(), "fleet"), openRegistries(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return place
}

func openRegistries(tb testing.TB) *Registries {
	tb.Helper()
	registries, err := NewRegistries(Access{})
	if err != nil {
		tb.Fatal(err)
	}
	return registries
}

func TestBundleRoundTripsThroughAnOCILayout(t *testing.T) {
	ctx, place, signer, documents := t.Context(), layoutPlace(t), trusttest.NewSigner(t), storedDocuments(t)
	manifest, err := bundle.Compose(documents, storedPredicate(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureDocuments(ctx, place, documents); err != nil {
		t.Fatal(err)
	}
	// After an interruption, the publisher pushes the same bundle again.
	for range 2 {
		if err := pushBundle(ctx, place, documents, manifest); err != nil {
			t.Fatal(err)
		}
	}
	repository, err := place.Reading(ctx, bundle.DesiredRepository(trusttest.Runtime))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Head(ctx, repository, bundle.TagDesired); err != nil || got != manifest.Descriptor.Digest {
		t.Errorf("head is %s, %v, want %s", got, err, manifest.Descriptor.Digest)
	}
	for name, reference := range map[string]string{"by tag": bundle.TagDesired,
		"by digest": manifest.Descriptor.Digest.String()} {
		t.Run(name, func(t *testing.T) {
			fetched, err := Fetch(ctx, repository, reference)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(fetched.Bytes, manifest.Bytes) {
				t.Errorf("got manifest %s, want the pushed manifest", fetched.Bytes)
			}
			verified, err := bundle.Verify(fetched,
				bundle.Trust{Root: trusttest.RootFor(t, signer), Runtime: trusttest.Runtime}, trusttest.Now)
			if err != nil {
				t.Fatal(err)
			}
			opened, err := FetchBundle(ctx, repository, verified)
			if err != nil {
				t.Fatal(err)
			}
			want, err := bundle.DecodeDesiredState(documents.State.Bytes)
			if err != nil || !reflect.DeepEqual(opened.State, want) {
				t.Errorf("got %+v, %v, want %+v", opened.State, err, want)
			}
		})
	}
}

func TestPushMovesTheTagToTheNewerBundle(t *testing.T) {
	ctx, place, signer, documents := t.Context(), layoutPlace(t), trusttest.NewSigner(t), storedDocuments(t)
	var last bundle.Blob
	for sequence := range int64(3) {
		predicate := storedPredicate()
		predicate.Sequence += sequence
		manifest, err := bundle.Compose(documents, predicate, signer)
		if err != nil {
			t.Fatal(err)
		}
		if err := pushBundle(ctx, place, documents, manifest); err != nil {
			t.Fatal(err)
		}
		last = manifest
	}
	repository, err := place.Reading(ctx, bundle.DesiredRepository(trusttest.Runtime))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Head(ctx, repository, bundle.TagDesired); err != nil || got != last.Descriptor.Digest {
		t.Errorf("head is %s, %v, want %s", got, err, last.Descriptor.Digest)
	}
}

func TestReportRoundTripsThroughAnOCILayout(t *testing.T) {
	ctx, place, signer := t.Context(), layoutPlace(t), trusttest.NewSigner(t)
	manifest, err := bundle.ComposeReport(bundle.Report{Runtime: trusttest.Runtime, Sequence: 50, Time: trusttest.Now,
		AgentVersion: "v1.0.0"}, signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := PushReport(ctx, place, trusttest.Runtime, manifest); err != nil {
		t.Fatal(err)
	}
	repository, err := place.Reading(ctx, bundle.ReportRepository(trusttest.Runtime))
	if err != nil {
		t.Fatal(err)
	}
	fetched, err := Fetch(ctx, repository, bundle.TagLatest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.VerifyReport(fetched,
		bundle.Reporter{Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, signer)}); err != nil {
		t.Error(err)
	}
}

func TestMissingContentReturnsErrNotFound(t *testing.T) {
	ctx, place, documents := t.Context(), layoutPlace(t), storedDocuments(t)
	manifest, err := bundle.Compose(documents, storedPredicate(), trusttest.NewSigner(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := pushBundle(ctx, place, documents, manifest); err != nil {
		t.Fatal(err)
	}
	other, err := place.Reading(ctx, bundle.DesiredRepository("r-18"))
	if err != nil {
		t.Fatal(err)
	}
	missing := bundle.NewBlob(bundle.MediaTypeCatalog, []byte("missing")).Descriptor
	for name, poll := range map[string]func() error{
		"tag of another runtime": func() error { _, err := Fetch(ctx, other, bundle.TagDesired); return err },
		"unknown digest":         func() error { _, err := Fetch(ctx, other, missing.Digest.String()); return err },
		"HEAD request for a tag": func() error { _, err := Head(ctx, other, bundle.TagDesired); return err },
		"missing blob": func() error {
			_, err := FetchBlob(ctx, other, missing, bundle.MaxDocumentBytes)
			return err
		},
		"missing config of a bundle": func() error {
			_, err := FetchBundle(ctx, other, bundle.Verified{Config: missing, Catalog: documents.Catalog.Descriptor})
			return err
		},
		"missing catalog of a bundle": func() error {
			_, err := FetchBundle(ctx, other, bundle.Verified{Config: documents.State.Descriptor, Catalog: missing})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := poll(); !errors.Is(err, ErrNotFound) || refusal.Of(err) != nil {
				t.Errorf("got %v, want %v", err, ErrNotFound)
			}
		})
	}
}

func TestFetchRefusesManifestOverTheLimit(t *testing.T) {
	for name, place := range map[string]Store{"memory": NewMemory(), "layout": layoutPlace(t)} {
		repository, err := place.Repository(t.Context(), bundle.DesiredRepository(trusttest.Runtime))
		if err != nil {
			t.Fatal(err)
		}
		// In a layout, a tag can point to any blob.
		large := bundle.NewBlob("application/octet-stream", make([]byte, bundle.MaxManifestBytes+1000))
		if err := PushManifest(t.Context(), repository, large, bundle.TagDesired); err != nil {
			t.Fatal(err)
		}
		fetched, err := Fetch(t.Context(), repository, bundle.TagDesired)
		trusttest.WantReason(t, err, refusal.TooLarge)
		if fetched.Bytes != nil || fetched.Descriptor.Digest != large.Descriptor.Digest {
			t.Errorf("%s: got %d bytes of %s, want only the descriptor",
				name, len(fetched.Bytes), fetched.Descriptor.Digest)
		}
	}
}

func TestFetchBlobRefusesMismatchedContent(t *testing.T) {
	asked := []byte("what was asked for")
	honest := bundle.NewBlob("text/plain", asked).Descriptor
	sized := func(size int64) ocispec.Descriptor {
		desc := honest
		desc.Size = size
		return desc
	}
	named := func(d digest.Digest) ocispec.Descriptor {
		desc := honest
		desc.Digest = d
		return desc
	}
	for _, c := range []struct {
		name  string
		desc  ocispec.Descriptor
		body  []byte
		limit int64
		want  refusal.Reason
	}{
		{"the requested blob is returned", honest, asked, honest.Size, ""},
		{"a blob with a sha512 digest is returned", named(digest.SHA512.FromBytes(asked)), asked, honest.Size, ""},
		{"other bytes of the same size are refused", honest, bytes.ToUpper(asked), honest.Size, refusal.WrongDigest},
		{"a truncated blob is refused", honest, asked[1:], honest.Size, refusal.WrongDigest},
		{
			"a blob with an extra byte is refused", honest, append(asked[:len(asked):len(asked)], '!'), honest.Size,
			refusal.WrongDigest,
		},
		{"an empty response is refused", honest, nil, honest.Size, refusal.WrongDigest},
		{"a wrong size is refused", sized(honest.Size - 1), asked, honest.Size, refusal.WrongDigest},
		{"a blob one byte larger than the limit is refused", honest, asked, honest.Size - 1, refusal.TooLarge},
		{"a negative size is refused", sized(-1), asked, honest.Size, refusal.TooLarge},
		{"a blob without a digest is refused", named(""), asked, honest.Size, refusal.WrongDigest},
		{"an invalid digest is refused", named("sha256:../../etc"), asked, honest.Size, refusal.WrongDigest},
		{
			"a digest with an unknown algorithm is refused", named("md5:d41d8cd98f00b204e9800998ecf8427e"), asked,
			honest.Size, refusal.WrongDigest,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			lying := content.FetcherFunc(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(c.body)), nil
			})
			got, err := FetchBlob(t.Context(), lying, c.desc, c.limit)
			trusttest.WantReason(t, err, c.want)
			if err == nil && !bytes.Equal(got, asked) {
				t.Errorf("got blob %q, want %q", got, asked)
			}
		})
	}
	t.Run("an endless blob is refused", func(t *testing.T) {
		endless := content.FetcherFunc(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
			return io.NopCloser(zeros{}), nil
		})
		_, err := FetchBlob(t.Context(), endless, honest, bundle.MaxDocumentBytes)
		trusttest.WantReason(t, err, refusal.WrongDigest)
	})
	t.Run("an unavailable registry is not a refusal", func(t *testing.T) {
		broken := content.FetcherFunc(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
			return nil, io.ErrUnexpectedEOF
		})
		if _, err := FetchBlob(t.Context(), broken, honest, bundle.MaxDocumentBytes); err == nil ||
			refusal.Of(err) != nil || errors.Is(err, ErrNotFound) {
			t.Errorf("got error %v, want an error that is neither a refusal nor ErrNotFound", err)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBlobDamagedOnDiskIsRefused(t *testing.T) {
	ctx, place, documents, signer := t.Context(), layoutPlace(t), storedDocuments(t), trusttest.NewSigner(t)
	manifest, err := bundle.Compose(documents, storedPredicate(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := pushBundle(ctx, place, documents, manifest); err != nil {
		t.Fatal(err)
	}
	verified, err := bundle.Verify(bundle.Fetched(manifest),
		bundle.Trust{Root: trusttest.RootFor(t, signer), Runtime: trusttest.Runtime}, trusttest.Now)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimPrefix(place.String(), LayoutScheme), "blobs", "sha256",
		documents.Catalog.Descriptor.Digest.Encoded())
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.ToUpper(documents.Catalog.Bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	repository, err := place.Reading(ctx, bundle.DesiredRepository(trusttest.Runtime))
	if err != nil {
		t.Fatal(err)
	}
	_, err = FetchBundle(ctx, repository, verified)
	trusttest.WantReason(t, err, refusal.WrongDigest)
}
