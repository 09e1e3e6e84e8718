package fleetstate

import (
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fluxcd/pkg/runtime/jitter"
	"golang.org/x/time/rate"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// EventLimit selects one of the limits for Events about a runtime's reports. A runtime that reaches one limit does not
// suppress Events with another limit.
type EventLimit int

// WatchEvent is the limit for changes to watched objects, ProblemEvent for refusals and other problems with reports,
// and StateEvent for changes of the Kyma's state.
const (
	WatchEvent EventLimit = iota
	ProblemEvent
	StateEvent
	eventLimits
)

// eventRates contains each limit's burst and interval. The burst is the number of Events that can be emitted at once.
// The interval is the time until one more Event is allowed.
var eventRates = [eventLimits]struct {
	burst    int
	interval time.Duration
}{
	WatchEvent:   {bundle.MaxWatchedReported, time.Second},
	ProblemEvent: {16, 10 * time.Second},
	StateEvent:   {16, 10 * time.Second},
}

// AllowEvent reports whether another Event about the runtime's reports can be emitted now, and counts the Event.
// Without the limits, a runtime could fill the control plane with Events.
func (r *Runtime) AllowEvent(limit EventLimit, now time.Time) bool {
	if r.events[limit] == nil {
		r.events[limit] = rate.NewLimiter(rate.Every(eventRates[limit].interval), eventRates[limit].burst)
	}
	return r.events[limit].AllowN(now, 1)
}

// These constants limit the rate of bundles that are published because of one runtime's reports. PushBurst is the
// burst, and PushInterval is the interval after the burst.
const (
	PushBurst    = 16
	PushInterval = 5 * time.Second
)

// CountPush counts a bundle that was pushed to the runtime.
func (r *Runtime) CountPush(now time.Time) {
	if r.pushLimit == nil {
		r.pushLimit = rate.NewLimiter(rate.Every(PushInterval), PushBurst)
	}
	r.pushLimit.AllowN(now, 1)
}

// MustHoldReports reports whether the publisher must not read new reports from the runtime now, because the runtime
// recently received many bundles. Each new report can cause another bundle, and the publisher must sign and push it.
func (r *Runtime) MustHoldReports(now time.Time) bool {
	return r.pushLimit != nil && r.pushLimit.TokensAt(now) < 1
}

// MinDelay is the first delay of a Backoff, and MaxDelay is the longest one.
const (
	MinDelay = time.Second
	MaxDelay = time.Minute
)

// Backoff is a growing delay between requests to a registry after failed requests.
type Backoff struct {
	// Since is when the backoff started, and Until is when the current delay ends.
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

// Remaining returns the remaining time in the current delay. It returns 0 for a nil Backoff.
func (b *Backoff) Remaining(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	return b.Until.Sub(now)
}
