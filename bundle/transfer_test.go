package bundle

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
)

func nothingPresent(digest.Digest) bool { return false }

func layoutPlace(tb testing.TB) *Place {
	tb.Helper()
	place, err := NewPlace(LayoutScheme+filepath.Join(tb.TempDir(), "fleet"), openRegistries(tb))
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

func TestABundleTravelsThroughALayout(t *testing.T) {
	ctx, place, signer, documents := t.Context(), layoutPlace(t), newSigner(t), sampleDocuments(t)
	manifest, err := Compose(documents, samplePredicate(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := ShareDocuments(ctx, place, documents); err != nil {
		t.Fatal(err)
	}
	// Twice, because a publisher that was interrupted begins again.
	for range 2 {
		if err := PushBundle(ctx, place, testRuntime, documents, manifest, nothingPresent); err != nil {
			t.Fatal(err)
		}
	}
	repository, err := place.Reading(ctx, DesiredRepository(testRuntime))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Head(ctx, repository, TagDesired); err != nil || got != manifest.Descriptor.Digest {
		t.Errorf("head is %s, %v, want %s", got, err, manifest.Descriptor.Digest)
	}
	for name, reference := range map[string]string{"by tag": TagDesired, "by digest": manifest.Descriptor.Digest.String()} {
		t.Run(name, func(t *testing.T) {
			fetched, err := Fetch(ctx, repository, reference)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(fetched.Bytes, manifest.Bytes) {
				t.Errorf("got %s", fetched.Bytes)
			}
			verified, err := Verify(fetched, Trust{Root: rootFor(t, signer), Runtime: testRuntime}, testNow)
			if err != nil {
				t.Fatal(err)
			}
			opened, err := FetchBundle(ctx, repository, verified)
			if err != nil {
				t.Fatal(err)
			}
			want, err := DecodeDesiredState(documents.State.Bytes)
			if err != nil || !reflect.DeepEqual(opened.State, want) {
				t.Errorf("got %+v, %v, want %+v", opened.State, err, want)
			}
		})
	}
}

func TestANewerBundleTakesTheTag(t *testing.T) {
	ctx, place, signer, documents := t.Context(), layoutPlace(t), newSigner(t), sampleDocuments(t)
	var last Blob
	for sequence := range int64(3) {
		predicate := samplePredicate()
		predicate.Sequence += sequence
		manifest, err := Compose(documents, predicate, signer)
		if err != nil {
			t.Fatal(err)
		}
		if err := PushBundle(ctx, place, testRuntime, documents, manifest, nothingPresent); err != nil {
			t.Fatal(err)
		}
		last = manifest
	}
	repository, err := place.Reading(ctx, DesiredRepository(testRuntime))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Head(ctx, repository, TagDesired); err != nil || got != last.Descriptor.Digest {
		t.Errorf("head is %s, %v, want %s", got, err, last.Descriptor.Digest)
	}
}

func TestAReportTravelsThroughALayout(t *testing.T) {
	ctx, place, signer := t.Context(), layoutPlace(t), newSigner(t)
	manifest, err := ComposeReport(sampleReport(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := PushReport(ctx, place, testRuntime, manifest); err != nil {
		t.Fatal(err)
	}
	repository, err := place.Reading(ctx, ReportRepository(testRuntime))
	if err != nil {
		t.Fatal(err)
	}
	fetched, err := Fetch(ctx, repository, TagLatest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyReport(fetched, Reporter{Runtime: testRuntime, Key: publicKey(t, signer)}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsMissingIsNotFound(t *testing.T) {
	ctx, place, documents := t.Context(), layoutPlace(t), sampleDocuments(t)
	manifest, err := Compose(documents, samplePredicate(), newSigner(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := PushBundle(ctx, place, testRuntime, documents, manifest, nothingPresent); err != nil {
		t.Fatal(err)
	}
	other, err := place.Reading(ctx, DesiredRepository("r-18"))
	if err != nil {
		t.Fatal(err)
	}
	missing := NewBlob(MediaTypeCatalog, []byte("missing")).Descriptor
	for name, look := range map[string]func() error{
		"another runtime's tag": func() error { _, err := Fetch(ctx, other, TagDesired); return err },
		"a digest nobody has":   func() error { _, err := Fetch(ctx, other, missing.Digest.String()); return err },
		"the head of a tag":     func() error { _, err := Head(ctx, other, TagDesired); return err },
		"a blob":                func() error { _, err := FetchBlob(ctx, other, missing, MaxDocumentBytes); return err },
		"a bundle's config": func() error {
			_, err := FetchBundle(ctx, other, Verified{Config: missing, Catalog: documents.Catalog.Descriptor})
			return err
		},
		"a bundle's catalog": func() error {
			_, err := FetchBundle(ctx, other, Verified{Config: documents.State.Descriptor, Catalog: missing})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := look(); !errors.Is(err, ErrNotFound) || RefusalOf(err) != nil {
				t.Errorf("got %v, want %v", err, ErrNotFound)
			}
		})
	}
}

func TestFetchReadsNoMoreOfAManifestThanTheLimit(t *testing.T) {
	ctx, place := t.Context(), layoutPlace(t)
	repository, err := place.Repository(ctx, DesiredRepository(testRuntime))
	if err != nil {
		t.Fatal(err)
	}
	// In a layout, a tag can point to any blob.
	large := NewBlob("application/octet-stream", make([]byte, MaxManifestBytes+1000))
	if err := PushManifest(ctx, repository, large, TagDesired); err != nil {
		t.Fatal(err)
	}
	fetched, err := Fetch(ctx, repository, TagDesired)
	if err != nil {
		t.Fatal(err)
	}
	if len(fetched.Bytes) != MaxManifestBytes+1 {
		t.Errorf("read %d bytes", len(fetched.Bytes))
	}
	_, err = Verify(fetched, Trust{}, testNow)
	wantReason(t, err, ReasonTooLarge)
}

func TestFetchBlobRefusesWhatWasNotAskedFor(t *testing.T) {
	asked := []byte("what was asked for")
	honest := NewBlob("text/plain", asked).Descriptor
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
		want  Reason
	}{
		{"the blob itself is given", honest, asked, honest.Size, ""},
		{"a blob named by its sha512 is given", named(digest.SHA512.FromBytes(asked)), asked, honest.Size, ""},
		{"other bytes of the same size are refused", honest, bytes.ToUpper(asked), honest.Size, ReasonWrongDigest},
		{"fewer bytes are refused", honest, asked[1:], honest.Size, ReasonWrongDigest},
		{"more bytes are refused", honest, append(asked[:len(asked):len(asked)], '!'), honest.Size, ReasonWrongDigest},
		{"no bytes are refused", honest, nil, honest.Size, ReasonWrongDigest},
		{"a size that is not the blob's is refused", sized(honest.Size - 1), asked, honest.Size, ReasonWrongDigest},
		{"a blob of one byte more than the limit is refused", honest, asked, honest.Size - 1, ReasonTooLarge},
		{"a negative size is refused", sized(-1), asked, honest.Size, ReasonTooLarge},
		{"a blob without a digest is refused", named(""), asked, honest.Size, ReasonWrongDigest},
		{"a digest that is none is refused", named("sha256:../../etc"), asked, honest.Size, ReasonWrongDigest},
		{"a digest by an algorithm nobody knows is refused", named("md5:d41d8cd98f00b204e9800998ecf8427e"), asked, honest.Size, ReasonWrongDigest},
	} {
		t.Run(c.name, func(t *testing.T) {
			lying := content.FetcherFunc(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(c.body)), nil
			})
			got, err := FetchBlob(t.Context(), lying, c.desc, c.limit)
			wantReason(t, err, c.want)
			if err == nil && !bytes.Equal(got, asked) {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Run("a blob without an end is given up", func(t *testing.T) {
		endless := content.FetcherFunc(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil })
		_, err := FetchBlob(t.Context(), endless, honest, MaxDocumentBytes)
		wantReason(t, err, ReasonWrongDigest)
	})
	t.Run("a registry that does not answer refuses nothing", func(t *testing.T) {
		broken := content.FetcherFunc(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) { return nil, io.ErrUnexpectedEOF })
		if _, err := FetchBlob(t.Context(), broken, honest, MaxDocumentBytes); err == nil || RefusalOf(err) != nil || errors.Is(err, ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestABlobDamagedOnDiskIsRefused(t *testing.T) {
	ctx, place, documents, signer := t.Context(), layoutPlace(t), sampleDocuments(t), newSigner(t)
	manifest, err := Compose(documents, samplePredicate(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := PushBundle(ctx, place, testRuntime, documents, manifest, nothingPresent); err != nil {
		t.Fatal(err)
	}
	verified, err := Verify(Fetched(manifest), Trust{Root: rootFor(t, signer), Runtime: testRuntime}, testNow)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimPrefix(place.String(), LayoutScheme), "blobs", "sha256", documents.Catalog.Descriptor.Digest.Encoded())
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.ToUpper(documents.Catalog.Bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	repository, err := place.Reading(ctx, DesiredRepository(testRuntime))
	if err != nil {
		t.Fatal(err)
	}
	_, err = FetchBundle(ctx, repository, verified)
	wantReason(t, err, ReasonWrongDigest)
}
