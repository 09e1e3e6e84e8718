package fleetstate

import (
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fluxcd/pkg/runtime/jitter"
)

// The delay of a Backoff starts at FirstWait and grows up to MaxWait.
const (
	FirstWait = time.Second
	MaxWait   = time.Minute
)

// Backoff is a growing delay between requests to a registry after failed requests.
type Backoff struct {
	// Since is the start of the backoff. Until is the end of its current delay.
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

// Fail must be called after a failed request. It starts the next delay unless a delay is in progress, and returns the
// remaining time.
func (b *Backoff) Fail(now time.Time) time.Duration {
	if !now.Before(b.Until) {
		b.Until = now.Add(b.waits.NextBackOff())
	}
	return jitter.JitteredIntervalDuration(b.Until.Sub(now))
}

// Left returns the remaining time of the current delay. It returns 0 for a nil Backoff.
func (b *Backoff) Left(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	return b.Until.Sub(now)
}
