package fleetstate

import (
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fluxcd/pkg/runtime/jitter"
)

// A Backoff's delay grows from FirstWait to MaxWait.
const (
	FirstWait = time.Second
	MaxWait   = time.Minute
)

// Backoff is the delay after failed requests to a registry.
type Backoff struct {
	// Since is the start of the backoff. Until is the end of the current delay.
	Since, Until time.Time
	waits        *backoff.ExponentialBackOff
}

// NewBackoff returns a Backoff that starts now.
func NewBackoff(now time.Time) *Backoff {
	b := &Backoff{Since: now, waits: backoff.NewExponentialBackOff()}
	b.waits.InitialInterval, b.waits.MaxInterval = FirstWait, MaxWait
	b.waits.Reset()
	return b
}

// Fail starts the next delay, unless one is in progress, and returns the remaining time.
func (b *Backoff) Fail(now time.Time) time.Duration {
	if !now.Before(b.Until) {
		b.Until = now.Add(b.waits.NextBackOff())
	}
	return jitter.JitteredIntervalDuration(b.Until.Sub(now))
}

// Left returns the remaining time of the current delay, or 0 for a nil Backoff.
func (b *Backoff) Left(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	return b.Until.Sub(now)
}
