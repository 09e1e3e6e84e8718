package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestTemporaryErrorsAreDetected(t *testing.T) {
	kind := schema.GroupResource{Resource: "secrets"}
	unreachable := &url.Error{
		Op:  "Get",
		URL: "https://127.0.0.1",
		Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":           {nil, false},
		"connection refused": {fmt.Errorf("read Secret: %w", unreachable), true},
		"status 401":         {apierrors.NewUnauthorized("expired"), true},
		"status 403":         {apierrors.NewForbidden(kind, "one", errors.New("no role yet")), true},
		"status 429":         {apierrors.NewTooManyRequestsError("later"), true},
		"status 500":         {apierrors.NewInternalError(errors.New("etcd")), true},
		"status 503":         {apierrors.NewServiceUnavailable("starting"), true},
		"status 502": {
			apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", kind, "one", "", 0, true), true,
		},
		"timeout":     {context.DeadlineExceeded, true},
		"status 404":  {apierrors.NewNotFound(kind, "one"), false},
		"status 400":  {apierrors.NewBadRequest("what"), false},
		"usage error": {cli.Usage(unreachable), false},
		"other error": {errors.New("parse root"), false},
	} {
		if got := IsTemporary(c.err); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}

func TestWaitingProgramIsAliveButNotReady(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	probe := func(path string) int {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return 0
		}
		defer func() { _ = answer.Body.Close() }()
		return answer.StatusCode
	}
	tries := 0
	f := &Flags{probeAddress: address}
	err = f.Prepare(t.Context(), 0, func(context.Context) error {
		tries++
		switch tries {
		case 1:
			return apierrors.NewServiceUnavailable("starting")
		case 2:
			if alive, ready := probe("/healthz"), probe("/readyz"); alive != http.StatusOK ||
				ready != http.StatusServiceUnavailable {
				t.Errorf("got status %d from /healthz and %d from /readyz, want 200 and 503", alive, ready)
			}
			return apierrors.NewUnauthorized("expired")
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("got error %v after %d attempts, want success after 3", err, tries)
	}
	if probe("/healthz") != 0 {
		t.Error("the probes are still served after Prepare returned")
	}
	wrong := cli.Usage(errors.New("--runtime: wrong"))
	if err := f.Prepare(t.Context(), 0, func(context.Context) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("usage error: got %v, want %v", err, wrong)
	}
	if err := f.Prepare(t.Context(), time.Nanosecond,
		func(context.Context) error { return apierrors.NewUnauthorized("expired") }); !apierrors.IsUnauthorized(err) {
		t.Errorf("after the limit: got %v, want the error of the API server", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := f.Prepare(ended, 0,
		func(context.Context) error {
			return apierrors.NewUnauthorized("expired")
		}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled context: got %v, want %v", err, context.Canceled)
	}
}
