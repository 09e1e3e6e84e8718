package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/internal/serve"
)

var prepareBackoff = wait.Backoff{
	Duration: 500 * time.Millisecond,
	Factor:   2,
	Jitter:   0.1,
	Steps:    7,
	Cap:      10 * time.Second,
}

// Prepare calls the given function, which performs the steps before the manager starts. If the function returns a
// temporary error, Prepare logs the error and retries until limit has passed. A limit of 0 means no limit. Prepare
// returns other errors immediately.
//
// While Prepare retries, probes report that the program is alive but not ready.
func (f *Flags) Prepare(ctx context.Context, limit time.Duration, prepare func(context.Context) error) error {
	began, backoff, logged := time.Now(), prepareBackoff, ""
	stop := func() {}
	defer func() { stop() }()
	for {
		err := prepare(ctx)
		if err == nil {
			if logged != "" {
				ctrl.Log.Info("the API server is available, continuing to start")
			}
			return nil
		}
		if !IsTemporary(err) || limit > 0 && time.Since(began) > limit {
			return err
		}
		if logged == "" {
			end, problem := f.serveWaiting(ctx)
			if problem != nil {
				return errors.Join(err, problem)
			}
			stop = end
		}
		if text := err.Error(); text != logged {
			ctrl.Log.Error(err, "cannot start yet, retrying: "+describeObstacle(err))
			logged = text
		}
		if !pause.Sleep(ctx, backoff.Step()) {
			return context.Cause(ctx)
		}
	}
}

// describeObstacle returns a log message for the error that delays the start.
func describeObstacle(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "the program's ServiceAccount lacks a permission: compare its roles with the chart's roles"
	case apierrors.IsUnauthorized(err):
		return "the API server rejects the program's credentials"
	default:
		return "the API server is unavailable"
	}
}

// serveWaiting serves probes for a program that cannot start yet.
func (f *Flags) serveWaiting(ctx context.Context) (stop func(), err error) {
	if f.probeAddress == "0" || f.probeAddress == "" {
		return func() {}, nil
	}
	listener, err := serve.Listen(ctx, f.probeAddress, nil, serve.Small)
	if err != nil {
		return nil, fmt.Errorf("health probes: %w", err)
	}
	probes := http.NewServeMux()
	probes.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	probes.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "cannot start yet, see the log", http.StatusServiceUnavailable)
	})
	server := serve.New(probes, serve.Small)
	ended := make(chan struct{})
	go func() {
		_ = server.Serve(listener) // Serve returns when stop closes the server
		close(ended)
	}()
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}

// temporaryStatuses are status codes below 500 that can be temporary, for example until RBAC rules exist.
var temporaryStatuses = []int32{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusTooManyRequests,
}

// IsTemporary reports whether an error can be temporary: the API server is unreachable or overloaded, or does not
// authorize the program yet.
func IsTemporary(err error) bool {
	if err == nil || cli.IsUsage(err) {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || slices.Contains(temporaryStatuses, code)
	}
	var network net.Error
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &request) || errors.Is(err, context.DeadlineExceeded)
}
