package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/types"
	"oras.land/oras-go/v2/registry/remote/errcode"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/reconcile"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "kcp-system", Name: name}
}

func logged(t *testing.T) (context.Context, *bytes.Buffer) {
	var lines bytes.Buffer
	log := funcr.New(func(_, args string) { fmt.Fprintln(&lines, args) }, funcr.Options{})
	return ctrl.LoggerInto(t.Context(), log), &lines
}

func TestFailingRepositoryDelaysOnlyItsRuntime(t *testing.T) {
	ctx, lines := logged(t)
	broken := errors.New("500")
	b := &registryBackoff{checkRegistry: func(context.Context) error { return nil }, fleet: fleetstate.New()}
	now, last := noon, time.Duration(0)
	for range 20 {
		wait, all := b.recordFailure(ctx, named("r0"), now, broken)
		if all || wait <= 0 || wait > 2*fleetstate.MaxDelay {
			t.Fatalf("got delay %s and all=%t, want a delay for this runtime only", wait, all)
		}
		if b.remainingDelay(named("r0"), now) <= 0 || b.remainingDelay(named("r1"), now) != 0 {
			t.Fatalf("got delays %s for r0 and %s for r1, want a delay for r0 only", b.remainingDelay(named("r0"), now),
				b.remainingDelay(named("r1"), now))
		}
		b.recordSuccess(ctx, named("r1"), now, true, true) // the success of another runtime must not end the backoff
		now, last = now.Add(wait+fleetstate.MaxDelay), wait
	}
	if last < fleetstate.MaxDelay/4 {
		t.Errorf("delay after 20 failures: got %s, want at least %s", last, fleetstate.MaxDelay/4)
	}
	if b.recordSuccess(ctx, named("r0"), now, true, false); b.fleet.CountFailing() != 1 {
		t.Error("a pushed bundle ended the backoff, although the reports were not read")
	}
	b.recordSuccess(ctx, named("r0"), now, true, true)
	if b.remainingDelay(named("r0"), now) != 0 || b.fleet.CountFailing() != 0 {
		t.Error("r0 still waits after a success")
	}
	if got := strings.Count(lines.String(), "\n"); got != 2 {
		t.Errorf("got %d log lines, want one for each change:\n%s", got, lines)
	}
}

func TestRegistryOutageDelaysAllRuntimes(t *testing.T) {
	ctx, lines := logged(t)
	down := errors.New("connection refused")
	b := &registryBackoff{checkRegistry: func(context.Context) error { return down }, fleet: fleetstate.New()}
	for i := range 20 {
		if wait, all := b.recordFailure(ctx, named(fmt.Sprint("r", i)), noon, down); !all || wait <= 0 ||
			wait > 2*fleetstate.MinDelay {
			t.Fatalf("got delay %s and all=%t, want the first delay for all runtimes", wait, all)
		}
	}
	if b.remainingDelay(named("other"), noon) <= 0 {
		t.Error("other runtimes do not wait during the outage")
	}
	if b.recordSuccess(ctx, named("r1"), noon.Add(-time.Second), true, true); b.outage == nil {
		t.Error("a pass that began before the outage ended the wait")
	}
	later := noon.Add(fleetstate.MaxDelay)
	b.recordSuccess(ctx, named("r1"), later, false, true)
	if b.outage == nil {
		t.Error("a pass without registry requests ended the wait")
	}
	down = nil
	if _, all := b.recordFailure(ctx, named("r0"), later, errors.New("500")); all ||
		b.remainingDelay(named("r1"), later) != 0 {
		t.Error("other runtimes still wait although the registry responds")
	}
	if got := strings.Count(lines.String(), "\n"); got != 3 {
		t.Errorf("got %d log lines, want one each for down, up, and the failing runtime:\n%s", got, lines)
	}
}

// The registry allows reads but refuses writes. The delay before the next attempt must grow after each refused write.
func TestRefusedWriteIsNotRepeatedInEveryPoll(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 1)
	refusing := &refusingStore{Store: w.place}
	w.place = refusing
	w.restart()
	w.poll()
	first := refusing.writes
	for range 60 {
		w.now = w.now.Add(w.kymas.PollInterval)
		w.poll()
	}
	if first == 0 || refusing.writes > 20*first {
		t.Errorf("got %d writes in the first poll and %d after 60 polls", first, refusing.writes)
	}
	refusing.allowed = true
	w.now = w.now.Add(2 * fleetstate.MaxDelay)
	w.poll()
	repository, err := refusing.Reading(t.Context(), bundle.DesiredRepository(w.names[0]))
	if err == nil {
		_, err = store.Head(t.Context(), repository, bundle.TagDesired)
	}
	if err != nil {
		t.Errorf("read the bundle after the registry accepts writes: %v", err)
	}
}

type refusingStore struct {
	store.Store
	writes  int
	allowed bool
}

func (s *refusingStore) Repository(ctx context.Context, name string) (store.ReadWriter, error) {
	repository, err := s.Store.Repository(ctx, name)
	return refusingRepository{repository, s}, err
}

type refusingRepository struct {
	store.ReadWriter
	of *refusingStore
}

func (r refusingRepository) Push(ctx context.Context, d ocispec.Descriptor, body io.Reader) error {
	if r.of.allowed {
		return r.ReadWriter.Push(ctx, d, body)
	}
	r.of.writes++
	return &errcode.ErrorResponse{
		Method: http.MethodPut, URL: &url.URL{Host: "registry.example"}, StatusCode: http.StatusForbidden,
	}
}

func TestManyFailingRuntimesLogFewLines(t *testing.T) {
	ctx, lines := logged(t)
	b := &registryBackoff{checkRegistry: func(context.Context) error { return nil }, fleet: fleetstate.New()}
	for round := range 2 {
		for i := range 1000 {
			b.recordFailure(ctx, named(fmt.Sprint("r", i)), noon.Add(time.Duration(round)*time.Hour), errors.New("500"))
		}
	}
	for i := range 1000 {
		b.recordSuccess(ctx, named(fmt.Sprint("r", i)), noon, true, true)
	}
	if got := strings.Count(lines.String(), "\n"); got > 2*maxLogged {
		t.Errorf("got %d log lines, want at most %d", got, 2*maxLogged)
	}
	if b.fleet.CountFailing() != 0 {
		t.Errorf("%d runtimes still have a backoff", b.fleet.CountFailing())
	}
}

func TestRegistryIsDownOnlyIfPingFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		down   bool
	}{
		"registry is healthy":           {answers(http.StatusOK), false},
		"registry requires credentials": {answers(http.StatusUnauthorized), false},
		"registry forbids the request":  {answers(http.StatusForbidden), false},
		"registry has no base endpoint": {answers(http.StatusNotFound), false},
		"registry has a server error":   {answers(http.StatusBadGateway), true},
		"registry is overloaded":        {answers(http.StatusTooManyRequests), true},
		"registry closes the connection": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true,
		},
		"only one repository has a server error": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}, false},
	} {
		if err := store.Ping(t.Context(), asking(t, c.answer).place); (err != nil) != c.down {
			t.Errorf("%s: got error %v, want down %t", name, err, c.down)
		}
	}
}

func TestFailingRuntimesMetricSumsAllShards(t *testing.T) {
	ctx, _ := logged(t)
	all, broken := NewFleetMetrics(), errors.New("500")
	first, second := registryBackoff{fleet: fleetstate.New()}, registryBackoff{fleet: fleetstate.New()}
	part := all.addPart(first.fleet, nil)
	all.addPart(second.fleet, nil)
	first.recordFailure(ctx, named("r0"), noon, broken)
	first.recordFailure(ctx, named("r0"), noon.Add(time.Hour), broken)
	second.recordFailure(ctx, named("r1"), noon, broken)
	second.recordFailure(ctx, named("r2"), noon, broken)
	second.fleet.Delete(named("r2"))
	second.fleet.Delete(named("r3")) // an unknown runtime
	if got := collected(t, all)[registryFailing.Name]; got != 2 {
		t.Errorf("got %v failing runtimes of two shards, want 2", got)
	}
	part.remove()
	first.recordFailure(ctx, named("r4"), noon, broken) // as in a reconcile that ends late
	if got := collected(t, all)[registryFailing.Name]; got != 1 {
		t.Errorf("got %v failing runtimes after a shard was retired, want 1", got)
	}
}

// While publishing is on hold for a Git commit, a report that the publisher can read proves that the registry responds.
func TestReadReportEndsAnOutageWhilePublishingIsHeld(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 2)
	w.settle()
	w.kymas.backoff.outage = fleetstate.NewBackoff(w.now)
	w.now = w.now.Add(time.Minute)
	release := w.kymas.Catalog.Hold()
	defer release()
	w.kymas.Catalog.changeStart.Store(time.Now().Add(-reconcile.HoldTimeout).UnixNano())
	_, err := w.kymas.Reconcile(quiet(t.Context()), ctrl.Request{NamespacedName: named("runtime-001")})
	w.must(err)
	if at := w.kymas.fleet.Get(named("runtime-001")).Report.AskedAt; !at.Equal(w.now) {
		t.Fatalf("the report was read at %s, want %s", at, w.now)
	}
	if w.kymas.backoff.outage != nil {
		t.Error("the outage continues although the registry responds")
	}
}
