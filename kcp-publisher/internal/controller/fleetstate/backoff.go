package fleetstate

import (
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fluxcd/pkg/runtime/jitter"
)

// The waits of a Backoff grow from FirstWait to MaxWait.
const (
	FirstWait = time.Second
	MaxWait   = time.Minute
)

// Backoff is how long a registry is not asked that did not answer.
type Backoff struct {
	// Since is when it began, and Until when the current wait ends.
	Since, Until time.Time
	waits        *backoff.ExponentialBackOff
}

// NewBackoff returns a Backoff that begins now.
func NewBackoff(now time.Time) *Backoff {
	b := &Backoff{Since: now, waits: backoff.NewExponentialBackOff()}
	b.waits.InitialInterval, b.waits.MaxInterval = FirstWait, MaxWait
	b.waits.Reset()
	return b
}

// Fail begins the next wait, unless one is under way, and returns what is left of it.
func (b *Backoff) Fail(now time.Time) time.Duration {
	if !now.Before(b.Until) {
		b.Until = now.Add(b.waits.NextBackOff())
	}
	return jitter.JitteredIntervalDuration(b.Until.Sub(now))
}

// Left returns what is left of the current wait; nil has none.
func (b *Backoff) Left(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	return b.Until.Sub(now)
}
