package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fluxcd/pkg/runtime/jitter"
	"oras.land/oras-go/v2/registry/remote/errcode"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// gate holds the whole queue back while the registry is away, with one backoff for all runtimes.
type gate struct {
	mu      sync.Mutex // guards all fields
	until   time.Time
	backoff *backoff.ExponentialBackOff // nil while the registry is there
}

const (
	firstWait = time.Second
	maxWait   = time.Minute
)

// wait gives how long to stay away from the registry, 0 when it may be asked.
func (g *gate) wait(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if wait := g.until.Sub(now); g.backoff != nil && wait > 0 {
		return jitter.JitteredIntervalDuration(wait)
	}
	return 0
}

// shut notes that the registry did not answer and gives how long to wait. Failures during one wait count once.
func (g *gate) shut(ctx context.Context, now time.Time, err error) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.backoff == nil {
		g.backoff = backoff.NewExponentialBackOff()
		g.backoff.InitialInterval, g.backoff.MaxInterval = firstWait, maxWait
		g.backoff.Reset()
		ctrl.LoggerFrom(ctx).Error(err, "the registry does not answer, publishing waits")
		registryUp.Set(0)
	}
	if !now.Before(g.until) {
		g.until = now.Add(g.backoff.NextBackOff())
	}
	return jitter.JitteredIntervalDuration(g.until.Sub(now))
}

// open notes that the registry answered.
func (g *gate) open(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	registryUp.Set(1)
	if g.backoff != nil {
		g.backoff, g.until = nil, time.Time{}
		ctrl.LoggerFrom(ctx).Info("the registry answers again")
	}
}

// unreachable tells a registry that is away from one that says no to this one request, and from content that is wrong.
func unreachable(err error) bool {
	if refusal.Of(err) != nil {
		return false
	}
	var response *errcode.ErrorResponse
	if errors.As(err, &response) {
		return response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests
	}
	var connection interface{ Timeout() bool } // what net and url errors have in common
	return errors.As(err, &connection)
}

// plainly says the same of the same answer: registries put times and request numbers into theirs, and a condition that holds
// one would be written anew at every pass.
func plainly(err error) error {
	var response *errcode.ErrorResponse
	if errors.As(err, &response) {
		return fmt.Errorf("the registry answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return err
}
