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
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller/fleetstate"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "kcp-system", Name: name}
}

// logged returns a context whose logger writes to a buffer.
func logged(t *testing.T) (context.Context, *bytes.Buffer) {
	var lines bytes.Buffer
	log := funcr.New(func(_, args string) { fmt.Fprintln(&lines, args) }, funcr.Options{})
	return ctrl.LoggerInto(t.Context(), log), &lines
}

func TestFailingRepositoryDelaysOnlyItsRuntime(t *testing.T) {
	ctx, lines := logged(t)
	broken := errors.New("500")
	b := &registryBackoff{ping: func(context.Context) error { return nil }, fleet: fleetstate.New(nil)}
	now, last := noon, time.Duration(0)
	for range 20 {
		wait, all := b.failed(ctx, named("r0"), now, broken)
		if all || wait <= 0 || wait > 2*fleetstate.MaxWait {
			t.Fatalf("waits %s, all %t", wait, all)
		}
		if b.wait(named("r0"), now) <= 0 || b.wait(named("r1"), now) != 0 {
			t.Fatalf("r0 waits %s, r1 %s", b.wait(named("r0"), now), b.wait(named("r1"), now))
		}
		b.answered(ctx, named("r1"), now, true, true) // success of other runtimes changes nothing for it
		now, last = now.Add(wait+fleetstate.MaxWait), wait
	}
	if last < fleetstate.MaxWait/4 {
		t.Errorf("after 20 failures it waits only %s", last)
	}
	if b.answered(ctx, named("r0"), now, true, false); b.fleet.Failing() != 1 {
		t.Error("a bundle that was pushed counts for the reports as well")
	}
	b.answered(ctx, named("r0"), now, true, true)
	if b.wait(named("r0"), now) != 0 || b.fleet.Failing() != 0 {
		t.Error("r0 still waits")
	}
	if got := strings.Count(lines.String(), "\n"); got != 2 {
		t.Errorf("%d lines of log, want one for each change:\n%s", got, lines)
	}
}

func TestRegistryOutageDelaysAllRuntimes(t *testing.T) {
	ctx, lines := logged(t)
	down := errors.New("connection refused")
	b := &registryBackoff{ping: func(context.Context) error { return down }, fleet: fleetstate.New(nil)}
	for i := range 20 {
		if wait, all := b.failed(ctx, named(fmt.Sprint("r", i)), noon, down); !all || wait <= 0 ||
			wait > 2*fleetstate.FirstWait {
			t.Fatalf("waits %s, all %t: failures during one wait count once", wait, all)
		}
	}
	if b.wait(named("other"), noon) <= 0 {
		t.Error("others do not wait")
	}
	if b.answered(ctx, named("r1"), noon.Add(-time.Second), true, true); b.all == nil {
		t.Error("a pass that began before ended the wait")
	}
	later := noon.Add(fleetstate.MaxWait)
	b.answered(ctx, named("r1"), later, false, true)
	if b.all == nil {
		t.Error("a pass that asked the registry for nothing ended the wait")
	}
	down = nil
	if _, all := b.failed(ctx, named("r0"), later, errors.New("500")); all || b.wait(named("r1"), later) != 0 {
		t.Error("others still wait although the registry answers")
	}
	if got := strings.Count(lines.String(), "\n"); got != 3 {
		t.Errorf("%d lines of log, want down, up, and the runtime that fails:\n%s", got, lines)
	}
}

// A pass that cannot write must wait longer each time, although the registry can be read.
func TestRefusedWriteIsNotRepeatedInEveryPoll(t *testing.T) {
	w := newWaves(t, newSurroundings(t), 1)
	refusing := &refusingStore{Store: w.place}
	w.place = refusing
	w.restart()
	w.poll()
	first := refusing.writes
	for range 60 { // ten minutes
		w.now = w.now.Add(w.kymas.PollInterval)
		w.poll()
	}
	if first == 0 || refusing.writes > 20*first {
		t.Errorf("%d writes in the first look and %d in 60 polls", first, refusing.writes)
	}
	refusing.allowed = true
	w.now = w.now.Add(2 * fleetstate.MaxWait)
	w.poll()
	repository, err := refusing.Reading(t.Context(), bundle.DesiredRepository(w.names[0]))
	if err == nil {
		_, err = store.Head(t.Context(), repository, bundle.TagDesired)
	}
	if err != nil {
		t.Errorf("once the registry takes the bundle: %v", err)
	}
}

// refusingStore refuses every write with 403.
type refusingStore struct {
	store.Store
	writes  int
	allowed bool
}

// Repository returns a read-only repository.
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
	b := &registryBackoff{ping: func(context.Context) error { return nil }, fleet: fleetstate.New(nil)}
	for round := range 2 {
		for i := range 1000 {
			b.failed(ctx, named(fmt.Sprint("r", i)), noon.Add(time.Duration(round)*time.Hour), errors.New("500"))
		}
	}
	for i := range 1000 {
		b.answered(ctx, named(fmt.Sprint("r", i)), noon, true, true)
	}
	if got := strings.Count(lines.String(), "\n"); got > 2*maxLogged {
		t.Errorf("%d lines of log", got)
	}
	if b.fleet.Failing() != 0 {
		t.Errorf("%d are remembered", b.fleet.Failing())
	}
}

func TestRegistryIsDownOnlyIfThePingFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		down   bool
	}{
		"it is well":            {answers(http.StatusOK), false},
		"it wants a password":   {answers(http.StatusUnauthorized), false},
		"it forbids":            {answers(http.StatusForbidden), false},
		"it has no such page":   {answers(http.StatusNotFound), false},
		"it is broken":          {answers(http.StatusBadGateway), true},
		"it has too much to do": {answers(http.StatusTooManyRequests), true},
		"it hangs up":           {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"one repository is broken": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}, false},
	} {
		if err := store.Ping(t.Context(), asking(t, c.answer).place); (err != nil) != c.down {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// failingRuntimes returns the value of the metric of failing runtimes.
func failingRuntimes(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "kyma_pull_publisher_registry_failing_runtimes" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return 0
}

func TestFailingRuntimesOfAllShardsAreAddedUp(t *testing.T) {
	ctx, _ := logged(t)
	before, broken := failingRuntimes(t), errors.New("500")
	first, second := registryBackoff{fleet: fleetstate.New(nil)}, registryBackoff{fleet: fleetstate.New(nil)}
	first.failed(ctx, named("r0"), noon, broken)
	first.failed(ctx, named("r0"), noon.Add(time.Hour), broken)
	second.failed(ctx, named("r1"), noon, broken)
	second.fleet.Drop(named("r2")) // an unknown runtime
	if got := failingRuntimes(t) - before; got != 2 {
		t.Errorf("%v runtimes of two shards", got)
	}
	first.retire()
	if got := failingRuntimes(t) - before; got != 1 {
		t.Errorf("%v runtimes after a shard has gone", got)
	}
	second.retire()
}
