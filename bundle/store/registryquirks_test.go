package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // registers the storage driver
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// quirkyRegistry starts a registry and returns its address. The function quirk receives each request first, and returns
// true if it has sent the response. Otherwise, the registry sends its response to the writer that the function returns.
func quirkyRegistry(t *testing.T, quirk func(http.ResponseWriter, *http.Request) (http.ResponseWriter, bool)) string {
	t.Helper()
	logrus.SetOutput(io.Discard)
	config := &configuration.Configuration{Storage: configuration.Storage{
		"inmemory": configuration.Parameters{}, "maintenance": configuration.Parameters{
			"uploadpurging": map[any]any{"enabled": false},
		},
	}}
	config.Log.Level, config.Log.AccessLog.Disabled, config.HTTP.Secret = "panic", true, "loopback"
	app := handlers.NewApp(context.WithoutCancel(t.Context()), config)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to, responded := quirk(w, r); !responded {
			app.ServeHTTP(to, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func quirkyStore(t *testing.T, host string, access Access) Store {
	t.Helper()
	registries, err := NewRegistries(access)
	if err != nil {
		t.Fatal(err)
	}
	place, err := Open(host+"/fleet", registries)
	if err != nil {
		t.Fatal(err)
	}
	return place
}

func publishAndRead(t *testing.T, place Store) error {
	t.Helper()
	ctx, signer, documents := t.Context(), trusttest.NewSigner(t), storedDocuments(t)
	manifest, err := bundle.Compose(documents, storedPredicate(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureDocuments(ctx, place, documents); err != nil {
		return err
	}
	if err := pushBundle(ctx, place, documents, manifest); err != nil {
		return err
	}
	repository, err := place.Reading(ctx, bundle.DesiredRepository(trusttest.Runtime))
	if err != nil {
		return err
	}
	if newest, err := Head(ctx, repository, bundle.TagDesired); err != nil || newest != manifest.Descriptor.Digest {
		return fmt.Errorf("got head %s: %w", newest, err)
	}
	fetched, err := Fetch(ctx, repository, bundle.TagDesired)
	if err == nil && !bytes.Equal(fetched.Bytes, manifest.Bytes) {
		err = errors.New("other bytes were read")
	}
	if err != nil {
		return err
	}
	_, err = FetchBlob(ctx, repository, documents.State.Descriptor, bundle.MaxDocumentBytes)
	return err
}

func TestBlobIsUploadedIfTheRegistryRefusesToMountIt(t *testing.T) {
	for _, status := range []int{200, 400, 401, 403, 404, 405, 415, 500, 501} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			var mounts atomic.Int32
			host := quirkyRegistry(t, func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, bool) {
				if !r.URL.Query().Has("mount") {
					return w, false
				}
				mounts.Add(1)
				http.Error(w, `{"errors":[{"code":"DENIED","message":"no cross mounts"}]}`, status)
				return w, true
			})
			if err := publishAndRead(t, quirkyStore(t, host, Access{NoRetry: true})); err != nil || mounts.Load() == 0 {
				t.Errorf("got error %[2]v after %[1]d mounts, want no error", mounts.Load(), err)
			}
		})
	}
}

func TestErrorContainsRefusedMountAndUpload(t *testing.T) {
	host := quirkyRegistry(t, func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, bool) {
		if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "/runtimes/") {
			return w, false
		}
		status := http.StatusInsufficientStorage
		if r.URL.Query().Has("mount") {
			status = http.StatusMethodNotAllowed
		}
		http.Error(w, `{"errors":[{"code":"DENIED","message":"no"}]}`, status)
		return w, true
	})
	err := publishAndRead(t, quirkyStore(t, host, Access{NoRetry: true}))
	if status, _ := StatusOf(err); err == nil || status != http.StatusInsufficientStorage ||
		!strings.Contains(err.Error(), "refused to mount the blob: the registry returned 405") {
		t.Errorf("got error %v, want both the refused mount and the failed upload", err)
	}
}

type withoutHeaders struct {
	http.ResponseWriter
	drop []string
}

func (w withoutHeaders) WriteHeader(status int) {
	for _, name := range w.drop {
		w.Header().Del(name)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w withoutHeaders) Write(data []byte) (int, error) {
	for _, name := range w.drop {
		w.Header().Del(name)
	}
	return w.ResponseWriter.Write(data)
}

func TestRegistryWithoutDigestOrLengthHeadersWorks(t *testing.T) {
	for _, drop := range [][]string{{"Docker-Content-Digest"}, {"Content-Length"},
		{"Docker-Content-Digest", "Content-Length"}} {
		t.Run(strings.Join(drop, " and "), func(t *testing.T) {
			host := quirkyRegistry(t, func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, bool) {
				if r.Method == http.MethodPost || r.Method == http.MethodPut ||
					strings.Contains(r.URL.Path, "/blobs/") {
					return w, false
				}
				return withoutHeaders{w, drop}, false
			})
			if err := publishAndRead(t, quirkyStore(t, host, Access{NoRetry: true})); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBlobWithoutLengthHeaderIsFound(t *testing.T) {
	for name, methods := range map[string][]string{
		"HEAD": {http.MethodHead}, "HEAD and GET": {http.MethodHead, http.MethodGet},
	} {
		t.Run(name, func(t *testing.T) {
			host := quirkyRegistry(t, func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, bool) {
				if !strings.Contains(r.URL.Path, "/blobs/") || !slices.Contains(methods, r.Method) {
					return w, false
				}
				return flushed{withoutHeaders{w, []string{"Content-Length"}}}, false
			})
			place := quirkyStore(t, host, Access{NoRetry: true})
			for range 2 {
				if err := publishAndRead(t, place); err != nil {
					t.Error(err)
				}
			}
			repository, err := place.Repository(t.Context(), bundle.DocumentsRepository)
			if err != nil {
				t.Fatal(err)
			}
			state := storedDocuments(t).State.Descriptor
			found, err := repository.(*remote.Repository).Blobs().Resolve(t.Context(), state.Digest.String())
			if err != nil || found.Size != state.Size {
				t.Errorf("got size %d, error %v, want %d", found.Size, err, state.Size)
			}
		})
	}
}

func TestRegistryWithoutHeadRequestsWorks(t *testing.T) {
	for _, status := range []int{http.StatusMethodNotAllowed, http.StatusNotImplemented} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			host := quirkyRegistry(t, func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, bool) {
				if r.Method == http.MethodHead {
					w.WriteHeader(status)
				}
				return w, r.Method == http.MethodHead
			})
			place := quirkyStore(t, host, Access{NoRetry: true})
			for range 2 {
				if err := publishAndRead(t, place); err != nil {
					t.Error(err)
				}
			}
			repository, err := place.Repository(t.Context(), bundle.DocumentsRepository)
			if err != nil {
				t.Fatal(err)
			}
			absent := bundle.NewBlob("application/octet-stream", []byte("absent"))
			if there, err := Has(t.Context(), repository, absent.Descriptor); err != nil || there {
				t.Errorf("got %t, error %v, want a missing blob", there, err)
			}
			if _, err := Head(t.Context(), repository, "absent"); !errors.Is(err, ErrNotFound) {
				t.Errorf("got error %v, want ErrNotFound", err)
			}
		})
	}
}

func TestBlobIsUploadedInChunksIfTheRegistryRequiresIt(t *testing.T) {
	for _, status := range []int{400, 404, 405, 411, 415, 416, 422, 501} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			var refused, chunks atomic.Int32
			host := quirkyRegistry(t, func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, bool) {
				if r.Method == http.MethodPatch {
					chunks.Add(1)
				}
				if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/blobs/uploads/") || r.ContentLength == 0 {
					return w, false
				}
				refused.Add(1)
				http.Error(w, `{"errors":[{"code":"UNSUPPORTED","message":"chunks only"}]}`, status)
				return w, true
			})
			place := quirkyStore(t, host, Access{NoRetry: true})
			if err := publishAndRead(t, place); err != nil {
				t.Fatal(err)
			}
			if refused.Load() != 1 || chunks.Load() == 0 {
				t.Errorf("got %d refused uploads and %d chunks, want 1 and at least 1", refused.Load(), chunks.Load())
			}

			t.Log("a stream is uploaded by another client")
			repository, err := quirkyStore(t, host, Access{NoRetry: true}).Repository(t.Context(), "streamed")
			if err != nil {
				t.Fatal(err)
			}
			blob := bundle.NewBlob("application/octet-stream", []byte("streamed"))
			err = RetryPaused(func() error {
				return PushStream(t.Context(), repository, blob.Descriptor, io.MultiReader(bytes.NewReader(blob.Bytes)))
			})
			if there, found := Has(t.Context(), repository, blob.Descriptor); err != nil || found != nil || !there {
				t.Errorf("got blob %t, errors %v and %v", there, err, found)
			}
		})
	}
}

func TestRefusedBlobIsReported(t *testing.T) {
	host := quirkyRegistry(t, func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, bool) {
		if r.Method == http.MethodPut || r.Method == http.MethodPatch {
			http.Error(w, `{"errors":[{"code":"DIGEST_INVALID","message":"refused `+r.Method+`"}]}`, http.StatusBadRequest)
			return w, true
		}
		return w, false
	})
	repository, err := quirkyStore(t, host, Access{NoRetry: true}).Repository(t.Context(), "refused")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := PushBlob(t.Context(), repository, bundle.EmptyBlob()); err == nil ||
			!strings.Contains(err.Error(), "refused PUT") {
			t.Errorf("got error %v, want the response to the first upload", err)
		}
	}
}

// flushed sends the headers before the body, so that the server does not add a Content-Length header.
type flushed struct{ withoutHeaders }

func (f flushed) WriteHeader(status int) {
	f.withoutHeaders.WriteHeader(status)
	f.ResponseWriter.(http.Flusher).Flush()
}

func (f flushed) Write(data []byte) (int, error) {
	n, err := f.withoutHeaders.Write(data)
	f.ResponseWriter.(http.Flusher).Flush()
	return n, err
}

func TestRetryAfterIsFollowedOnEveryRequest(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) { testRetryAfter(t, status) })
	}
}

func testRetryAfter(t *testing.T, status int) {
	t.Helper()
	const blobPut = 3
	var seen [4]atomic.Bool
	methods := []string{http.MethodHead, http.MethodGet, http.MethodPost, http.MethodPut}
	host := quirkyRegistry(t, func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, bool) {
		for i, method := range methods {
			if r.Method == method && seen[i].CompareAndSwap(false, true) {
				w.Header().Set("Retry-After", "1")
				http.Error(w, `{"errors":[{"code":"TOOMANYREQUESTS","message":"slow"}]}`, status)
				return w, true
			}
		}
		return w, false
	})
	place := quirkyStore(t, host, Access{})
	if err := publishAndRead(t, place); err != nil {
		t.Fatal(err)
	}
	// A client cannot repeat an upload from a stream, because the stream cannot be read twice.
	seen[blobPut].Store(false)
	blob := bundle.NewBlob("application/x-tar", []byte("content"))
	repository, err := place.Repository(t.Context(), bundle.ContentRepository)
	if err != nil {
		t.Fatal(err)
	}
	from := NewMemory()
	source, err := from.Repository(t.Context(), bundle.ContentRepository)
	if err != nil {
		t.Fatal(err)
	}
	if err := PushBlob(t.Context(), source, blob); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = RetryPaused(func() error {
		return oras.CopyGraph(t.Context(), unseekable{source}, repository, blob.Descriptor,
			oras.DefaultCopyGraphOptions)
	})
	if err != nil || !seen[blobPut].Load() || time.Since(began) < time.Second {
		t.Errorf("got error %v after %s, want success after at least 1s", err, time.Since(began))
	}
	if there, err := Has(t.Context(), repository, blob.Descriptor); err != nil || !there {
		t.Errorf("uploaded blob: got exists %t, error %v, want true", there, err)
	}
}

// unseekable hides that a body can be read again, so a client cannot repeat the upload.
type unseekable struct{ ReadWriter }

func (u unseekable) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	body, err := u.ReadWriter.Fetch(ctx, d)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{body, body}, nil
}

func TestWritesFailDuringALongRetryAfterPause(t *testing.T) {
	var writes atomic.Int32
	host := quirkyRegistry(t, func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, bool) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return w, false
		}
		writes.Add(1)
		w.Header().Set("Retry-After", "3600")
		http.Error(w, `{"errors":[{"code":"TOOMANYREQUESTS","message":"slow"}]}`, http.StatusTooManyRequests)
		return w, true
	})
	place := quirkyStore(t, host, Access{NoRetry: true})
	documents := storedDocuments(t)
	for range 5 {
		_, err := EnsureDocuments(t.Context(), place, documents)
		if status, _ := StatusOf(err); !IsUnavailable(err) || status != http.StatusTooManyRequests ||
			WithoutDetail(err).Error() != "the registry returned 429 Too Many Requests" {
			t.Errorf("write during a pause: got error %v, want status 429", err)
		}
	}
	if writes.Load() != 1 {
		t.Errorf("got %d writes, want 1", writes.Load())
	}
	repository, err := place.Reading(t.Context(), bundle.DocumentsRepository)
	if err == nil {
		_, err = Head(t.Context(), repository, "any")
	}
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("read during a pause of writes: got error %v, want ErrNotFound", err)
	}
}

func TestRetryAfterPausesEndAndAreLimited(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-1": 0, "soon": 0, "2": 2 * time.Second, "99999999999": 0,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("Retry-After %q: got %s, want %s", text, got, want)
		}
	}
	p := newPauses(nil)
	p.now = func() time.Time { return now }
	key := pauseKey{"registry.example", true}
	p.record(key, &http.Response{
		StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"86400"}},
	})
	if err := p.wait(t.Context(), key); err == nil || p.pausedUntil[key].Until.Sub(now) != maxPause {
		t.Errorf("got pause %+v, error %v, want an end after %s", p.pausedUntil[key], err, maxPause)
	}
	now = now.Add(maxPause)
	if err := p.wait(t.Context(), key); err != nil {
		t.Errorf("after the pause: got error %v, want no error", err)
	}
}
