package component

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/cache"
)

func (w *world) with(reader *Reader, access string) Component {
	w.Helper()
	w.component(home, scaler, "1.0.0", "  resources:\n  - {name: it, version: 1.0.0, type: blob, access: "+access+"}\n")
	c, err := reader.Component(w.Context(), scaler, "1.0.0")
	w.must(err)
	return c
}

func (w *world) file(content string) {
	w.Helper()
	w.artifact("modules/files", "v1", "application/x", w.push("modules/files", "application/yaml", content))
}

func TestChangedReferenceIsRefused(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	w.file(hello)
	content := func(clock *clock, c Component, reader *Reader) error {
		reader.now = clock.now
		_, err := reader.Content(t.Context(), c, c.Descriptor.Resources[0], w.place())
		return err
	}
	at := &clock{at: time.Unix(1_800_000_000, 0)}
	kept, err := cache.Open(dir, 1<<20)
	w.must(err)
	reader := w.reader(func(o *Options) { o.Cached, o.Pins = kept.Wrap, kept })
	c := w.with(reader, "{type: ociArtifact, imageReference: \""+w.host+"/modules/files:v1\"}")
	w.must(content(at, c, reader))
	w.file("b: 2\n")
	before := w.requests.Load()
	w.must(content(at, c, reader)) // before the next revalidation
	if asked := w.requests.Load() - before; asked != 0 {
		t.Errorf("got %d requests for known content", asked)
	}
	at.at = at.at.Add(time.Hour)
	want := "access: " + w.host + "/modules/files:v1 changed, but the version did not: was sha256:"
	for range 2 {
		if err := content(at, c, reader); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if data, err := reader.Bytes(t.Context(), c, c.Descriptor.Resources[0]); err == nil {
		t.Errorf("changed reference: got content %q, want an error", data)
	}
	t.Run("changed reference without pins", func(t *testing.T) {
		w.file(hello)
		at, reader := &clock{at: at.at}, w.reader()
		w.must(content(at, c, reader))
		w.file("b: 2\n")
		at.at = at.at.Add(time.Hour)
		if err := content(at, c, reader); !errors.Is(err, errChanged) {
			t.Errorf("got error %v, want errChanged", err)
		}
	})
	w.must(kept.Close())
	t.Run("changed reference after a restart", func(t *testing.T) {
		kept, err := cache.Open(dir, 1<<20)
		w.must(err)
		defer kept.Close()
		again := w.reader(func(o *Options) { o.Cached, o.Pins = kept.Wrap, kept })
		if err := content(at, c, again); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		w.file(hello)
		at.at = at.at.Add(time.Hour)
		w.must(content(at, c, again))
	})
}

func TestVersionChangedDuringPinningIsRefused(t *testing.T) {
	w, reader, c := newWatched(t)
	kept, err := cache.Open(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	reader.Pins, reader.Cached = kept, kept.Wrap
	if err := ask(t, reader); err != nil {
		t.Fatal(err)
	}
	w.manifest = strings.Replace(w.manifest, `{"schemaVersion"`, `{"annotations":{"released":"again"},"schemaVersion"`,
		1)
	c.at = c.at.Add(revalidate)
	if err := ask(t, reader); err == nil ||
		!strings.Contains(err.Error(), "changed, but the version did not: was sha256:") {
		t.Errorf("got error %v, want a changed version", err)
	}
}

// The registry replaces a reference after the signature of its component was compared, and before it is pinned.
func TestReferenceReplacedAfterTheCheckIsRefused(t *testing.T) {
	w := newWorld(t)
	w.refer("top", "base")
	w.refer("base")
	at := &clock{at: time.Unix(1_800_000_000, 0)}
	var compared digest.Digest
	check := func(ctx context.Context, r *Reader, c Component) error {
		all, err := r.Closure(ctx, c)
		if err != nil || len(all) != 2 {
			return fmt.Errorf("got %d components: %w", len(all), err)
		}
		compared = all[1].Manifest.Digest
		at.at = at.at.Add(time.Hour)
		w.refer("base", "other") // replaces the manifest
		w.refer("other")
		return nil
	}
	reader := w.reader(func(o *Options) { o.Check = check })
	reader.now = at.now
	c, err := reader.Component(t.Context(), "kyma-pull.dev/module/top", "1.0.0")
	w.must(err)
	if pinned, _ := reader.firstManifests.Get("kyma-pull.dev/module/base:1.0.0"); pinned != compared {
		t.Errorf("got digest %s for the reference, want the compared digest %s", pinned, compared)
	}
	if all, err := reader.Closure(t.Context(), c); !errors.Is(err, errChanged) {
		t.Errorf("replaced reference: got %d components and error %v, want errChanged", len(all), err)
	}
}

// helmWorld starts a Helm repository with the chart a:1.0.0. It returns the repository's URL, a counter of requests,
// the chart's content, and a switch that makes the repository return errors.
func helmWorld(t *testing.T) (url string, requests *atomic.Int32, chart *atomic.Value, away *atomic.Bool) {
	t.Helper()
	requests, chart, away = &atomic.Int32{}, &atomic.Value{}, &atomic.Bool{}
	chart.Store(hello)
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch {
		case away.Load():
			to.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/stable/index.yaml":
			fmt.Fprint(to, "entries: {a: [{version: 1.0.0, urls: ['/stable/charts/a.tgz?v=1']}]}")
		case r.URL.Path == "/stable/charts/a.tgz" && r.URL.RawQuery == "v=1":
			fmt.Fprint(to, chart.Load())
		default:
			http.NotFound(to, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/stable", requests, chart, away
}

func TestChartIsFetchedOnceForAllRuntimes(t *testing.T) {
	w := newWorld(t)
	url, requests, chart, away := helmWorld(t)
	reader := w.reader(func(o *Options) { o.HelmRepositories = []string{url} })
	at := &clock{at: time.Unix(1_800_000_000, 0)}
	reader.now = at.now
	c := w.with(reader, "{type: helm, helmRepository: '"+url+"', helmChart: 'a:1.0.0'}")
	place := w.place()
	content := func(place store.Store) (Content, error) {
		return reader.Content(t.Context(), c, c.Descriptor.Resources[0], place)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if found, err := content(place); err != nil || found.Digest != digest.FromString(hello) {
				t.Errorf("got content %+v and error %v, want the chart", found, err)
			}
		})
	}
	all.Wait()
	if n := requests.Load(); n != 2 {
		t.Errorf("got %d requests for index and chart, want 2", n)
	}
	before := w.requests.Load()
	_, err := content(place)
	w.must(err)
	if n := w.requests.Load() - before; n != 1 {
		t.Errorf("got %d requests to the place for existing content", n)
	}
	t.Run("chart is stored again in another registry location", func(t *testing.T) {
		other, err := store.Open(w.host+"/other", w.registries)
		w.must(err)
		found, err := content(other)
		w.must(err)
		if w.there(found) != hello || !strings.HasPrefix(found.Repository, w.host+"/other/") {
			t.Errorf("got content %+v, want it in the other location", found)
		}
	})
	t.Run("Helm repository unavailable", func(*testing.T) {
		away.Store(true)
		at.at = at.at.Add(time.Hour)
		_, err := content(place)
		w.must(err)
		away.Store(false)
	})
	t.Run("changed chart is refused", func(t *testing.T) {
		chart.Store("c: 3\n")
		at.at = at.at.Add(time.Hour)
		if _, err := content(place); err == nil ||
			!strings.Contains(err.Error(), "chart a:1.0.0 of "+url+" changed, but the version did not") {
			t.Errorf("got error %v, want a changed chart", err)
		}
		chart.Store(hello)
		at.at = at.at.Add(time.Hour)
		_, err := content(place)
		w.must(err)
	})
}

func TestDeletedContentIsStoredAgain(t *testing.T) {
	w := newWorld(t)
	first, second := w.push(home, "a/b", hello[:5]), w.push(home, "a/b", hello[5:])
	w.component(home, scaler, "1.0.0",
		"  resources:\n  - {name: it, version: 1.0.0, type: blob, access: {type: localBlob, localReference: \""+
			first.Digest.String()+","+second.Digest.String()+"\"}}\n", first, second)
	reader := w.reader()
	c, err := reader.Component(t.Context(), scaler, "1.0.0")
	w.must(err)
	lost := newWorld(t)
	place := lost.place()
	for range 2 {
		found, err := reader.Content(t.Context(), c, c.Descriptor.Resources[0], place)
		w.must(err)
		if lost.there(found) != hello {
			t.Errorf("got content %+v, want it to be readable", found)
		}
		lost.wipe()
	}
}

func TestFailedContentIsCachedForAWhile(t *testing.T) {
	w := newWorld(t)
	url, requests, _, away := helmWorld(t)
	away.Store(true)
	reader := w.reader(func(o *Options) { o.HelmRepositories, o.RetryAfter = []string{url}, time.Minute })
	at := &clock{at: time.Unix(1_800_000_000, 0)}
	reader.now = at.now
	c := w.with(reader, "{type: helm, helmRepository: '"+url+"', helmChart: 'a:1.0.0'}")
	content := func(ctx context.Context) error {
		_, err := reader.Content(ctx, c, c.Descriptor.Resources[0], w.place())
		return err
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := content(gone); err == nil {
		t.Error("a canceled request succeeded")
	}
	for range 3 {
		if err := content(t.Context()); err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("got error %v, want status 403", err)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("got %d requests, want 1", n)
	}
	away.Store(false)
	at.at = at.at.Add(time.Minute)
	w.must(content(t.Context()))
}
