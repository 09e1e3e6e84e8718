package control

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fluxcd/pkg/runtime/jitter"
	ctrl "sigs.k8s.io/controller-runtime"
)

// registryBackoff holds the whole queue back while the registry is down, with one backoff for all runtimes.
type registryBackoff struct {
	mu      sync.Mutex // guards all fields
	until   time.Time
	backoff *backoff.ExponentialBackOff // nil while the registry answers
}

const (
	firstWait = time.Second
	maxWait   = time.Minute
)

// wait returns how long not to ask the registry, 0 when it may be asked.
func (b *registryBackoff) wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := b.until.Sub(now); b.backoff != nil && wait > 0 {
		return jitter.JitteredIntervalDuration(wait)
	}
	return 0
}

// begin notes that the registry did not answer and returns how long to wait. Failures during one wait count once.
func (b *registryBackoff) begin(ctx context.Context, now time.Time, err error) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.backoff == nil {
		b.backoff = backoff.NewExponentialBackOff()
		b.backoff.InitialInterval, b.backoff.MaxInterval = firstWait, maxWait
		b.backoff.Reset()
		ctrl.LoggerFrom(ctx).Error(err, "registry unavailable, publishing waits")
		registryUp.Set(0)
	}
	if !now.Before(b.until) {
		b.until = now.Add(b.backoff.NextBackOff())
	}
	return jitter.JitteredIntervalDuration(b.until.Sub(now))
}

// end notes that the registry answered.
func (b *registryBackoff) end(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	registryUp.Set(1)
	if b.backoff != nil {
		b.backoff, b.until = nil, time.Time{}
		ctrl.LoggerFrom(ctx).Info("registry available again")
	}
}
