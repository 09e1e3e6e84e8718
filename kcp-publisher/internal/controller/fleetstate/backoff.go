package fleetstate

import (
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fluxcd/pkg/runtime/jitter"
)

// The delay of a Backoff starts at MinDelay and grows up to MaxDelay.
const (
	// The delay of a Backoff starts at MinDelay and grows up to MaxDelay.
	MinDelay = time.Second
	MaxDelay = time.Minute
)

// Backoff is a growing delay between requests to a registry after failed requests.
type Backoff struct {
	// Since is the start of the backoff. Until is the end of its current delay.
	Since, Until time.Time
	delays       *backoff.ExponentialBackOff
}

// NewBackoff returns a Backoff that starts now.
func NewBackoff(now time.Time) *Backoff {
	b := &Backoff{Since: now, delays: backoff.NewExponentialBackOff()}
	b.delays.InitialInterval, b.delays.MaxInterval = MinDelay, MaxDelay
	b.delays.Reset()
	return b
}

// RecordFailure must be called after a failed request. It returns the remaining time of the current delay. If the
// current delay has ended, it starts the next one and returns its length.
func (b *Backoff) RecordFailure(now time.Time) time.Duration {
	if !now.Before(b.Until) {
		b.Until = now.Add(b.delays.NextBackOff())
	}
	return jitter.JitteredIntervalDuration(b.Until.Sub(now))
}

// Remaining returns the remaining time of the current delay. It returns 0 for a nil Backoff.
func (b *Backoff) Remaining(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	return b.Until.Sub(now)
}
