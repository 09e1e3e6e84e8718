package component

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

const revalidate, retryAfter = time.Hour, time.Minute

// watched is a registry that counts requests. Tests can make it return errors.
type watched struct {
	*answers
	heads, gets atomic.Int32
	status      atomic.Int32 // if not 0, the status of all responses
}

func (w *watched) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		w.heads.Add(1)
	} else {
		w.gets.Add(1)
	}
	if status := w.status.Load(); status != 0 {
		to.WriteHeader(int(status))
		return
	}
	w.answers.ServeHTTP(to, r)
}

func newWatched(t *testing.T) (*watched, *Reader, *clock) {
	t.Helper()
	w := &watched{answers: validRegistry(fmt.Sprintf(good, "[]"))}
	c := &clock{at: time.Unix(1_800_000_000, 0)}
	reader := NewReader(Options{Sources: []Source{serve(t, w)}, Revalidate: revalidate, RetryAfter: retryAfter})
	reader.now = c.now
	return w, reader, c
}

func ask(t *testing.T, reader *Reader) error {
	t.Helper()
	_, err := reader.Component(t.Context(), scaler, "1.0.0")
	return err
}

func TestVersionIsReadOnceAndLaterRevalidated(t *testing.T) {
	w, reader, c := newWatched(t)
	for range 3 {
		if err := ask(t, reader); err != nil {
			t.Fatal(err)
		}
	}
	if gets := w.gets.Load(); gets != 3 || w.heads.Load() != 0 { // manifest, config and descriptor
		t.Errorf("got %d GETs and %d HEADs for the first read", gets, w.heads.Load())
	}
	c.at = c.at.Add(revalidate)
	for range 3 {
		if err := ask(t, reader); err != nil {
			t.Fatal(err)
		}
	}
	if gets, heads := w.gets.Load(), w.heads.Load(); gets != 3 || heads != 1 {
		t.Errorf("got %d GETs and %d HEADs after the revalidation", gets, heads)
	}
}

func TestChangedVersionIsAnErrorUntilItIsRestored(t *testing.T) {
	w, reader, c := newWatched(t)
	if err := ask(t, reader); err != nil {
		t.Fatal(err)
	}
	before := w.manifest
	w.manifest = strings.Replace(before, `{"schemaVersion"`, `{"annotations":{"released":"again"},"schemaVersion"`, 1)
	c.at = c.at.Add(revalidate)
	for range 3 {
		err := ask(t, reader)
		if err == nil ||
			!strings.Contains(err.Error(), "component "+scaler+":1.0.0 changed, but the version did not: was sha256:") {
			t.Fatalf("changed version: got error %v, want a refusal", err)
		}
		c.at = c.at.Add(retryAfter)
	}
	w.manifest = before
	if err := ask(t, reader); err != nil {
		t.Errorf("restored version: got error %v, want none", err)
	}
}

func TestKnownVersionSurvivesRegistryOutage(t *testing.T) {
	w, reader, c := newWatched(t)
	if err := ask(t, reader); err != nil {
		t.Fatal(err)
	}
	w.status.Store(http.StatusServiceUnavailable)
	c.at = c.at.Add(revalidate)
	if err := ask(t, reader); err != nil {
		t.Errorf("unavailable registry: got error %v, want the cached version", err)
	}
	w.status.Store(http.StatusNotFound)
	c.at = c.at.Add(revalidate)
	if err := ask(t, reader); !errors.Is(err, ErrMissing) {
		t.Errorf("deleted version: got error %v, want ErrMissing", err)
	}
}

func TestFailedComponentReadIsCachedForAWhile(t *testing.T) {
	w, reader, c := newWatched(t)
	w.status.Store(http.StatusServiceUnavailable)
	for range 3 {
		if err := ask(t, reader); err == nil || errors.Is(err, ErrMissing) {
			t.Fatalf("unavailable registry: got error %v, want one other than ErrMissing", err)
		}
	}
	if gets := w.gets.Load(); gets != 1 {
		t.Errorf("got %d requests within %s, want 1", gets, retryAfter)
	}
	w.status.Store(0)
	c.at = c.at.Add(retryAfter)
	if err := ask(t, reader); err != nil {
		t.Errorf("after the registry outage: %v", err)
	}
}

func TestCanceledCallIsNotCached(t *testing.T) {
	_, reader, _ := newWatched(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := reader.Component(ctx, scaler, "1.0.0"); err == nil {
		t.Error("a canceled request succeeded")
	}
	if err := ask(t, reader); err != nil {
		t.Errorf("next caller: got error %v, want none", err)
	}
}

func TestSourcesAreTriedInOrder(t *testing.T) {
	empty := &watched{answers: validRegistry(fmt.Sprintf(good, "[]"))}
	empty.status.Store(http.StatusNotFound)
	full := validRegistry(fmt.Sprintf(good, "[]"))
	first, second := serve(t, empty), serve(t, full)
	c, err := NewReader(Options{Sources: []Source{first, second}, Revalidate: revalidate, RetryAfter: retryAfter}).
		Component(t.Context(), scaler, "1.0.0")
	if err != nil || c.Repository != second.Repository(scaler) {
		t.Errorf("got repository %s and error %v, want the second source", c.Repository, err)
	}
	_, err = NewReader(Options{Sources: []Source{first}, Revalidate: revalidate, RetryAfter: retryAfter}).
		Component(t.Context(), scaler, "1.0.0")
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), first.String()) {
		t.Errorf("version in no source: got %v", err)
	}
	// If a source is unavailable, the next source must not be tried, because the first one may contain the version.
	empty.status.Store(http.StatusServiceUnavailable)
	if _, err = NewReader(Options{Sources: []Source{first, second}, Revalidate: revalidate, RetryAfter: retryAfter}).
		Component(t.Context(), scaler, "1.0.0"); err == nil {
		t.Error("the second source was used while the first was unavailable")
	}
}
