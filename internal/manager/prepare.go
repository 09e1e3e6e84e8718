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
	"github.com/kyma-pull/kyma-pull/internal/serve"
)

// prepareBackoff is how long Prepare waits between two tries.
var prepareBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 7, Cap: 10 * time.Second}

// Prepare runs what a program has to do before its manager. While the API server cannot be asked, or does not let the
// program do it, it waits and tries again, says why once, and answers probes: it is alive, and not ready. It gives up
// after most, 0 for never; any other error ends it at once.
func (f *Flags) Prepare(ctx context.Context, most time.Duration, prepare func(context.Context) error) error {
	began, backoff, said := time.Now(), prepareBackoff, ""
	stop := func() {}
	defer func() { stop() }()
	for {
		err := prepare(ctx)
		if err == nil {
			if said != "" {
				ctrl.Log.Info("the API server can be used, starting goes on")
			}
			return nil
		}
		if !IsPassing(err) || most > 0 && time.Since(began) > most {
			return err
		}
		if said == "" {
			end, problem := f.serveWaiting(ctx)
			if problem != nil {
				return errors.Join(err, problem)
			}
			stop = end
		}
		if text := err.Error(); text != said {
			ctrl.Log.Error(err, "cannot start yet, waiting for the API server")
			said = text
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(backoff.Step()):
		}
	}
}

// serveWaiting serves the probes of a program that waits, until it is stopped.
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
		http.Error(w, "waiting for the API server", http.StatusServiceUnavailable)
	})
	server := serve.New(probes, serve.Small)
	ended := make(chan struct{})
	go func() {
		_ = server.Serve(listener) // it ends when it is closed
		close(ended)
	}()
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}

// passing are answers below 500 of an API server that may be others soon.
var passing = []int32{http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusTooManyRequests}

// IsPassing reports whether an error says something of the moment: the API server cannot be reached, is overloaded, or
// does not know or allow the program yet. A mistake in the command line, or an object that is not there, is none.
func IsPassing(err error) bool {
	if err == nil || cli.IsUsage(err) {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || slices.Contains(passing, code)
	}
	var network net.Error
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &request) || errors.Is(err, context.DeadlineExceeded)
}
